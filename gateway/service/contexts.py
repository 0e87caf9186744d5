"""Serves requests about a context that produce no response: compaction, and counting its input tokens."""

import time
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol

from dataplane.body_weight import run_for_items
from gateway.errors import NotFound
from gateway.http.large_bodies import LargeBodyPool
from gateway.planning.admitted_request import AdmittedRequest
from gateway.planning.compaction import build_sealed_item, build_summary_turn, request_summary, require_compactable
from gateway.planning.continuation import check_stored_items
from gateway.planning.continued_history import HistorySource
from gateway.planning.hosted_tools import find_first_turn
from gateway.planning.plan import find_relay, require_no_loss
from gateway.planning.prepare_turn import lift_request, make_exchange_factory, names_file, prepare_exchange
from gateway.planning.resolver import Target
from gateway.planning.token_counting import count_tokens
from gateway.replies.client_params import ClientParams, RejectionParams
from gateway.replies.endpoints import Endpoint, RelaySpec, ResponseForm, UpstreamInput
from gateway.replies.observers import LOG_OBSERVER, Observer
from gateway.service.admission import Admission, ClientRequest
from gateway.service.idempotency.keys import KEY_IGNORED
from gateway.service.intake import InputFiles, PromptInsertion
from gateway.service.provider_lifetimes import ProviderHold
from gateway.service.sharing.shared_contexts import ask_targets
from providers.base import RelayCounter
from providers.errors import UpstreamRejected
from providers.new_id import new_id
from translation.errors import InvalidRequest
from translation.hygiene.item_groups import is_user_message
from translation.lowering.input_files import FileContent, take_files_out
from translation.lowering.unsupported import find_unknown_key_losses
from translation.representation.events import Usage
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.turn import LoweredRequest, Turn
from translation.responses import usage as usage_object
from translation.responses.client.storable_items import to_storable_items
from translation.responses.compaction import CompactionContent
from translation.tools.tool_rewriting import has_accepted_names


class CompactionReply(NamedTuple):
    """The JSON object for the client, and the losses of its request."""

    body: Json
    losses: Sequence[Loss]


class TokenCount(NamedTuple):
    """The number of input tokens, and the losses of counting: keys that the API does not have, servers whose tools
    could not be counted, and blocks of another model."""

    tokens: int
    losses: Sequence[Loss]


class _PreparedTurn(NamedTuple):
    """A turn with its history, the client's parameter names, and the request as it would be planned."""

    turn: Turn
    params: ClientParams
    planned: AdmittedRequest
    relayed: bool
    """Whether the body would be relayed."""

    @contextmanager
    def rename_params_in_errors(self) -> Iterator[None]:
        """Changes the parameter of an error that the block raises to its name in the client's request."""
        try:
            yield
        except InvalidRequest as error:
            self.params.rename_param_of(error)
            raise
        except UpstreamRejected as rejection:
            endpoint, body = self.planned.endpoint, self.planned.body
            RejectionParams(endpoint.param_names, body).name_param_of(rejection)
            raise

    def find_losses(self, sent_extra: Container[str]) -> list[Loss]:
        """Returns the losses of lifting the request, and those of keys that its API does not have.

        `sent_extra` are the keys of `Turn.extra` that the upstream is sent.
        """
        turn = self.turn
        lost = [Loss(name, "dropped") for name in turn.extra if name not in sent_extra]
        return [*turn.losses, *self.params.rename_losses([*lost, *find_unknown_key_losses(turn.unknown_keys)])]


class ContextHistory(Protocol):
    """Joins requests about contexts with what they continue."""

    async def join(self, request: AdmittedRequest) -> tuple[AdmittedRequest, int]:
        """Returns the request with its history and its approvals, and the weight of the history.

        Raises InvalidRequest, NotFound and StoreUnavailable.
        """
        ...


class NoContextHistory:
    """A server without a store has no history: parameters about stored state are refused by name later."""

    async def join(self, request: AdmittedRequest) -> tuple[AdmittedRequest, int]:
        return request, 0


class StoredContextHistory:
    """The history in the store."""

    def __init__(self, history: HistorySource) -> None:
        self._history = history

    async def join(self, request: AdmittedRequest) -> tuple[AdmittedRequest, int]:
        form, facts = request.endpoint.storage, request.facts
        if not isinstance(form, ResponseForm):
            return request, 0
        state = await self._history.load(request.owner, facts, request.thread)
        approvals = None
        if (host := request.tool_host) is not None:
            labels = host.list_callable_labels(facts.tools.hosted, request.target.mcp_servers)
            approvals = await self._history.load_approvals(request.owner, request.identity.id, state, labels)
        items = None if state.history_count is None else state.context
        joined = replace(
            request,
            body=form.continue_upstream(request.body, UpstreamInput(items)),
            facts=facts if items is None else replace(facts, input_value=items),
            history_count=state.history_count,
            approvals=approvals,
        )
        return joined, state.weight


class ContextService:
    """Compacts contexts and counts their tokens. There is one per configuration."""

    def __init__(
        self,
        admission: Admission,
        pool: LargeBodyPool,
        history: ContextHistory,
        files: InputFiles,
        prompts: PromptInsertion,
        provider_hold: ProviderHold | None = None,
        observer: Observer = LOG_OBSERVER,
    ) -> None:
        self._observer = observer
        self._prompts = prompts
        self._admission = admission
        self._pool = pool
        self._history = history
        self._files = files
        self._provider_hold = provider_hold
        self._clock: Callable[[], int] = lambda: int(time.time())

    async def compact_context(self, client_request: ClientRequest) -> CompactionReply:
        """Returns the compacted input that replaces the whole context of a request of the Responses API.

        Nothing is stored. Raises InvalidRequest, UnknownModel, StoreUnavailable, CompactionFailed, TurnFailed and
        ProviderError.
        """
        request = await self._admit(client_request)
        if client_request.has_key:
            request.losses = [*request.losses, KEY_IGNORED]
        return await ask_targets(
            request, self._observer, lambda planned: self._compact(planned, client_request.weight), judges=True
        )

    async def _compact(self, request: AdmittedRequest, weight: int) -> CompactionReply:
        prepared = await self._prepare_turn(request, weight, runs_tools=False)
        turn, target, endpoint = prepared.turn, prepared.planned.target, prepared.planned.endpoint
        with prepared.rename_params_in_errors():
            lead, older, rest = await run_for_items(turn.items, require_compactable, turn)
            summary_turn = build_summary_turn(turn, older)
            _, _, summary_losses = await run_for_items(older, prepare_exchange, summary_turn, target, endpoint)
            losses = [*prepared.planned.losses, *prepared.find_losses(summary_turn.extra), *summary_losses]
            require_no_loss(losses, strict=prepared.planned.is_strict)
            summary = await request_summary(turn, older, make_exchange_factory(target, endpoint))
        files = prepared.planned.loaded_files
        user_messages = await run_for_items(turn.items, _list_user_messages, turn, files)
        item = await build_sealed_item(CompactionContent(summary.text, lead, rest, after_users=True), files)
        compaction = {
            "id": new_id("resp"),
            "object": "response.compaction",
            "created_at": self._clock(),
            "output": [*user_messages, item],
            # `usage` is required in the API, so an upstream that reports none yields zeros.
            "usage": usage_object.write_usage(summary.usage) or usage_object.write_usage(Usage(0, 0)),
        }
        return CompactionReply(compaction, losses)

    async def count_input_tokens(self, client_request: ClientRequest) -> TokenCount:
        """Returns the number of input tokens that a response to a request of the Responses API would use.

        With tools that the gateway runs, the first request to the model is counted, with the tools that their servers
        list now. Raises InvalidRequest, UnknownModel, StoreUnavailable, ToolListFailed and ProviderError;
        Unrepresentable if the upstream cannot count them.
        """
        request = await self._admit(client_request)

        async def count(planned: AdmittedRequest) -> TokenCount:
            return await _count_prepared(await self._prepare_turn(planned, client_request.weight, runs_tools=True))

        return await ask_targets(request, self._observer, count, judges=False)

    async def _admit(self, client_request: ClientRequest) -> AdmittedRequest:
        """Returns a request that is valid to every upstream, because its context is read here.

        Raises InvalidRequest and UnknownModel.
        """
        if "prompt" in client_request.body:
            client_request = await self._prompts.insert(client_request)
        request = await self._admission.admit(client_request)
        if request.refusal is not None:
            raise request.refusal
        return request

    async def count_tokens(self, client_request: ClientRequest) -> TokenCount:
        """Returns the number of input tokens that a reply to a request would use, for an endpoint that only counts.

        If the request would be relayed, the upstream counts the body itself. Raises what `count_input_tokens` raises,
        and NotFound if the upstream cannot count them: clients then make an estimate of their own.
        """
        request = await self._admit(client_request)
        return await ask_targets(
            request, self._observer, lambda planned: self._count_tokens(planned, client_request), judges=False
        )

    async def _count_tokens(self, request: AdmittedRequest, client_request: ClientRequest) -> TokenCount:
        endpoint, target = request.endpoint, request.target
        if target.capabilities.counting == "none":
            raise NotFound("the model's upstream cannot count tokens", param="model")
        request = await self._add_tool_host(request)
        relay = find_relay(endpoint, request.facts, target) if request.tool_host is None else None
        counter = target.provider
        if relay is not None and target.capabilities.counting == "own" and isinstance(counter, RelayCounter):
            # The endpoint for counting accepts no other parameters than the client's own.
            build = partial(_build_relayed_count, reads_files=self._files.reads_files)
            body, weight = client_request.body, client_request.weight
            lowered = await self._pool.call_weighed(weight, build, endpoint, relay, body, target)
            if lowered is not None:
                credentials = request.facts.tools.credentials
                tokens = await counter.count_relayed_tokens(relay.dialect, lowered.body, credentials)
                return TokenCount(tokens, lowered.losses)

        def lift(planned: AdmittedRequest, weight: int) -> Awaitable[tuple[Turn, ClientParams]]:
            return self._pool.call_weighed(weight, lift_request, planned)

        turn, params = await self._files.plan(request, client_request.weight, lift)
        return await _count_prepared(_PreparedTurn(turn, params, request, relayed=False))

    async def _add_tool_host(self, request: AdmittedRequest) -> AdmittedRequest:
        """Returns the request with the host of the tools that its target does not run."""
        endpoint, facts, route, principal = request.endpoint, request.facts, request.route, request.principal
        host = await self._admission.open_tool_host(endpoint, facts, route, principal)
        if route.sharing is not None:
            host = self._admission.find_tool_host(endpoint, facts, request.target, principal, host)
        return replace(request, tool_host=host)

    async def _prepare_turn(self, request: AdmittedRequest, weight: int, *, runs_tools: bool) -> _PreparedTurn:
        """Returns the turn of a request with its history. For a large body this happens in a thread.

        With `runs_tools`, the turn includes the tools that the gateway would run.
        """
        if runs_tools:
            request = await self._add_tool_host(request)
        request, history_weight = await self._history.join(request)

        def lift(planned: AdmittedRequest, weight: int) -> Awaitable[_PreparedTurn]:
            return self._pool.call_weighed(weight, _lift_with_history, planned)

        return await self._files.plan(request, weight + history_weight, lift)


def _list_user_messages(turn: Turn, files: Mapping[str, FileContent]) -> Sequence[Item]:
    """Returns the messages of the user as they would be stored: they name their files."""
    return to_storable_items(take_files_out([item for item in turn.items if is_user_message(item)], files), new_id)


def _build_relayed_count(
    endpoint: Endpoint, relay: RelaySpec, body: Json, target: Target, *, reads_files: bool
) -> LoweredRequest | None:
    """Returns the body for the upstream's endpoint for counting, and its losses; None if it would not be relayed.

    Raises InvalidRequest for a thread.
    """
    turn = endpoint.request.lift(body, relayed=True)
    if (reads_files and names_file(endpoint, body, turn)) or not has_accepted_names(turn, target.profile.tool_names):
        return None
    input_losses: Sequence[Loss] = ()
    if relay.fit_input is not None:
        body, input_losses = relay.fit_input(body, None, target.profile, has_history=False)
    relayed_body, losses = relay.build_body(body, target.profile, model=target.upstream_model)
    return LoweredRequest(relayed_body, [*input_losses, *losses])


async def _count_prepared(prepared: _PreparedTurn) -> TokenCount:
    """Returns the number of tokens, and the losses: keys that the API does not have, and tools that a reply might have,
    and that could not be counted."""
    turn, planned = prepared.turn, prepared.planned
    losses = prepared.find_losses(planned.target.profile.extra_params)
    require_no_loss(losses, strict=planned.is_strict)
    with prepared.rename_params_in_errors():
        # An upstream that cannot count is reported without asking the servers.
        if planned.tool_host is not None and planned.target.capabilities.counting != "none":
            turn, tool_losses = await find_first_turn(turn, planned, planned.tool_host)
            losses += tool_losses
        return TokenCount(await count_tokens(turn, planned, relayed=prepared.relayed), losses)


def _lift_with_history(planned: AdmittedRequest) -> _PreparedTurn:
    try:
        return _lift(planned)
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        check_stored_items(planned.facts, planned.history_count)
        raise


def _lift(planned: AdmittedRequest) -> _PreparedTurn:
    facts, target = planned.facts, planned.target
    if target.reasoning_seal is not None:
        target.reasoning_seal.check_input(facts.input_value, planned.history_count or 0)
    relayed = planned.tool_host is None and find_relay(planned.endpoint, facts, target) is not None
    turn, params = lift_request(planned, native_compaction=relayed)
    return _PreparedTurn(turn, params, planned, relayed)
