"""The records of tool calls in the store, of their approvals, before and after they are sent, and the protocols for
them."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from translation.hosted.approvals import ApprovalAnswers, ApprovalRecord
from translation.representation.json_types import Item, Json

CallState: TypeAlias = Literal["intended", "started", "finished", "unknown"]
"""`intended`: it is to be run, and was not sent. `started`: it may have been sent. `finished`: its result is known.
`unknown`: it was started, and its response ended without its result."""


class CallRecord(NamedTuple):
    """One call in the journal.

    `item` is the `mcp_call` item as clients see it, with its result once it is finished. `position` is its place in the
    output. `media` are the parts of the result besides its text. `is_repeatable`: it may be sent a second time.
    """

    item: Item
    position: int
    state: CallState
    is_repeatable: bool = False
    media: Sequence[Json] = ()


class OpenCall(NamedTuple):
    """A call of a reply without a response, such as a chat completion, as long as it has not ended.

    `is_started`: it may have been sent.
    """

    item_id: str
    server_label: str
    name: str
    is_started: bool


class OpenCallStore(Protocol):
    """Stores the calls of replies without a response while they run. No other process continues such a reply.

    If its process dies, its calls remain in the table `tool_calls`, and are logged. No response reports them.
    """

    async def record_calls(self, owner: str, reply_id: str, calls: Sequence[OpenCall]) -> None:
        """Stores calls that will be sent, or that are sent now. Returns once they are committed."""
        ...

    async def close_call(self, owner: str, reply_id: str, item_id: str) -> None:
        """Deletes a call that has ended."""
        ...

    async def abandon_calls(self, owner: str, reply_id: str) -> None:
        """Stores that the reply no longer waits for its calls: the outcome of calls that were sent is unknown."""
        ...


class CallJournalStore(Protocol):
    """Stores the calls of responses. Only the worker that holds an active response writes: others get LeaseLost.

    A write may be repeated if its caller does not know whether it was committed.
    """

    async def record_calls(
        self, owner: str, response_id: str, calls: Sequence[CallRecord], *, worker: str, progress: Json | None
    ) -> None:
        """Stores new calls before any of them is sent. Returns once they are committed.

        `progress` replaces the saved progress of the loop in the response's job. None leaves it unchanged.
        """
        ...

    async def start_call(self, owner: str, response_id: str, item_id: str, *, worker: str) -> None:
        """Stores that an intended call is sent now, or a repeatable one again. It must not be sent before this returns.

        Raises LeaseLost also if the call is finished.
        """
        ...

    async def finish_call(
        self, owner: str, response_id: str, item: Item, *, worker: str, media: Sequence[Json] = ()
    ) -> None:
        """Stores the result of a started call. `item` is its whole item."""
        ...

    async def load_calls(self, owner: str, response_id: str) -> Sequence[CallRecord]:
        """Returns the calls of a response in the order of its output."""
        ...


class ApprovalStore(Protocol):
    """Stores the requests for approvals of calls, and their states.

    A request is answered once, whichever replicas try: by `create_response`, or by `answer_approvals` for a response
    that is not stored. Its record is deleted with the response that made it, or a week after it has expired.
    """

    async def store_approvals(
        self, owner: str, records: Sequence[ApprovalRecord], *, begun_us: int | None = None
    ) -> None:
        """Stores the records of new requests, unless the data of the owner was erased since their run began."""
        ...

    async def load_approvals(self, owner: str, request_ids: Sequence[str]) -> Mapping[str, ApprovalRecord]:
        """Returns the records by their ids, expired ones in the state `expired`. Unknown ids are absent."""
        ...

    async def answer_approvals(self, owner: str, answers: ApprovalAnswers, response_id: str) -> None:
        """Stores all answers of a response that begins, or none. Raises InvalidRequest if one no longer counts."""
        ...

    async def void_approvals(self, owner: str, request_ids: Sequence[str], response_id: str) -> None:
        """Changes the state of approvals from `used` to `void`: this response has used them, but did not run their
        calls."""
        ...

    async def reopen_approvals(self, owner: str, request_ids: Sequence[str], response_id: str) -> None:
        """Changes the state of approvals from `used` back to `open`: this response did not run their calls."""
        ...
