"""The approvals of one response and the input of its calls: answers in its request, and new requests."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

import structlog

from dataplane.sharing.work_pool import run_for_count
from gateway.errors import StoreUnavailable
from gateway.state.call_records import ApprovalStore
from gateway.state.row_values import read_clock_us
from gateway.tools.input_seal import InputSeal
from translation.errors import InvalidRequest
from translation.hosted.approvals import (
    NO_ANSWERS,
    ApprovalAnswers,
    ApprovalRecord,
    ApprovalRequest,
    list_request_ids,
    replace_nul,
    verify_answers,
)
from translation.hosted.tools import digest_arguments
from translation.representation.json_types import Item, Json
from translation.responses.compaction import apply_compaction, has_compaction_trigger

_log = structlog.get_logger(__name__)

_DAY_US: Final = 86_400 * 1_000_000


class ResponseApprovals:
    """The approvals of a response that begins. Requests and answers are stored before they have an effect.

    `answers` are stored together with the response. If the response is not stored before it runs, `confirmation` stores
    them: it is awaited before the first call, and raises InvalidRequest if another request was faster.
    """

    def __init__(
        self,
        store: ApprovalStore,
        owner: str,
        response_id: str,
        answers: ApprovalAnswers = NO_ANSWERS,
        *,
        ttl_days: float,
        input_seal: InputSeal,
    ) -> None:
        self.answers: Final = answers
        self.confirmation: Callable[[], Awaitable[None]] | None = None
        self._is_confirmed = False
        self._store = store
        self._owner = owner
        self._response_id = response_id
        self._ttl_us = int(ttl_days * _DAY_US)
        self._input_seal = input_seal
        self._begun_us = read_clock_us()
        self.expiries: Final[dict[str, int]] = {}
        """The times at which the requests of the response expire, in epoch microseconds, by their ids."""

    def store_answers(self) -> Awaitable[None]:
        """Stores the answers of a response that is not stored. Raises InvalidRequest and StoreUnavailable."""
        return self._store.answer_approvals(self._owner, self.answers, self._response_id)

    def save_answers(self) -> Json:
        """Returns the answers as JSON, for a job that another replica may continue. Raises StoreUnavailable."""
        return self._input_seal.save_answers(self.answers, self._owner, self._response_id)

    async def confirm(self) -> None:
        """Waits until the answers are stored, so that the approved calls may run. Raises what `confirmation` raises."""
        if self.answers.is_empty:
            return
        if self.confirmation is not None:
            await self.confirmation()
        self._is_confirmed = True
        for request_id in self.answers.approved:
            _log.info("approval_used", approval=request_id)
        for request_id in self.answers.denied:
            _log.info("approval_denied", approval=request_id)

    async def reopen(self) -> None:
        """Makes the approvals usable again, because none of their calls was sent."""
        if not self.answers.approved:
            return
        if self.confirmation is not None and not self._is_confirmed:
            with suppress(InvalidRequest, StoreUnavailable):  # they may be stored only now
                await self.confirmation()
        try:
            await self._store.reopen_approvals(self._owner, [*self.answers.approved], self._response_id)
        except StoreUnavailable:
            _log.warning("approvals_not_reopened", approvals=[*self.answers.approved])

    async def void(self, request_ids: Sequence[str]) -> None:
        """Stores that approvals were not used, because the tool has changed. Raises StoreUnavailable."""
        if request_ids:
            await self._store.void_approvals(self._owner, request_ids, self._response_id)
            _log.info("approvals_void", approvals=[*request_ids])

    async def store_requests(self, requests: Sequence[ApprovalRequest]) -> None:
        """Stores requests of the response before they are sent to the client. Raises StoreUnavailable."""
        expires_us = read_clock_us() + self._ttl_us
        records = [self._build_record(request, expires_us) for request in requests]
        await self._store.store_approvals(self._owner, records, begun_us=self._begun_us)
        self.expiries.update({record.id: record.expires_us for record in records})
        for record in records:
            event = "approval_requested" if record.sealed_input is None else "input_requested"
            _log.info(event, approval=record.id, server=record.server_label, tool=record.tool_name)

    def _build_record(self, request: ApprovalRequest, expires_us: int) -> ApprovalRecord:
        item, tool, requested = request.item, request.tool, request.requested_input
        sealed = None if requested is None else self._input_seal.seal_input(requested, self._owner, item["id"])
        return ApprovalRecord(
            id=item["id"],
            response_id=self._response_id,
            server_label=replace_nul(item["server_label"]),
            tool_name=replace_nul(item["name"]),
            origin=replace_nul(_read_origin(tool.origin)),
            arguments_digest=digest_arguments(item["arguments"]),
            definition_digest=tool.definition_digest,
            expires_us=expires_us,
            sealed_input=sealed,
        )


class ApprovalFactory:
    """Makes the approvals of responses. There is one per configuration."""

    def __init__(self, store: ApprovalStore, input_seal: InputSeal, *, ttl_days: float) -> None:
        """`ttl_days`: the time after which a request for an approval or for input expires."""
        self._store = store
        self._input_seal = input_seal
        self._ttl_days = ttl_days

    async def load(
        self,
        owner: str,
        response_id: str,
        context: Sequence[Item],
        own_items: Sequence[Item],
        server_labels: Iterable[str],
    ) -> ResponseApprovals:
        """Returns the approvals of a response with the valid answers in its input.

        `context` is the input with its history; `own_items` are the items of the request itself. Raises InvalidRequest
        for an invalid answer, and StoreUnavailable.
        """
        answers = NO_ANSWERS
        items, request_ids = await run_for_count(len(context), _find_requests, context)
        if request_ids:
            records = await self.load_records(owner, request_ids)
            answers = await run_for_count(len(items), verify_answers, items, own_items, records, server_labels)
        return self._make(owner, response_id, answers)

    async def load_records(self, owner: str, request_ids: Sequence[str]) -> Mapping[str, ApprovalRecord]:
        """Returns the records of requests by their ids, with the input that their calls ask for.

        Raises StoreUnavailable.
        """
        return self._input_seal.unseal_records(owner, await self._store.load_approvals(owner, request_ids))

    def restore(self, owner: str, response_id: str, fields: Json) -> ResponseApprovals:
        """Returns the approvals of a job, from the result of `ResponseApprovals.save_answers`.

        Raises StoreUnavailable and CredentialsNotStored.
        """
        return self._make(owner, response_id, self._input_seal.load_answers(fields, owner, response_id))

    def _make(self, owner: str, response_id: str, answers: ApprovalAnswers) -> ResponseApprovals:
        return ResponseApprovals(
            self._store, owner, response_id, answers, ttl_days=self._ttl_days, input_seal=self._input_seal
        )


def _find_requests(context: Sequence[Item]) -> tuple[Sequence[Item], Sequence[str]]:
    """Returns the items of a context after its last compaction, and the ids of the requests for approvals among them
    that it may answer."""
    # A compaction runs no calls. The answers remain in it, and are valid for the next response.
    if has_compaction_trigger(context):
        return (), ()
    try:
        items = apply_compaction(context)
    except InvalidRequest:
        return (), ()  # the plan raises it, with the client's name of the parameter
    return items, list_request_ids(items)


def _read_origin(address: str) -> str:
    """Returns scheme, host and port of an address: its path and query may hold credentials."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else parts.scheme
