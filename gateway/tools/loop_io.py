"""What the loop of hosted tools reads and writes besides its exchange: a journal, the state of an interruption, events,
and a compaction of its context."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from gateway.errors import StoreUnavailable
from gateway.state.call_records import CallRecord
from gateway.state.values import LeaseLost
from gateway.tools.mcp.errors import McpFault
from gateway.tools.tool_events import ToolEvents
from providers.base import Exchange
from translation.hosted.calls import HostedCall
from translation.hosted.citations.citation_table import CitationTable
from translation.hosted.compaction import HostedContextParts
from translation.hosted.interruptions.interruption import Interruption, build_unknown_outcome
from translation.hosted.outcomes import ToolOutcome, build_execution_error, build_model_output
from translation.hosted.tool_report import CallFigures
from translation.hosted.tool_search.deferred_tools import DeferredTools
from translation.representation.events import Usage
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.turn import Turn

_INPUT_NOT_REQUESTED: Final = (
    "outcome unknown: the tool asked for input, and the gateway stopped before the user was asked; it was not repeated"
)


class ReplyJournal(Protocol):
    """Records the calls of one reply. A call is sent only after the method that records it has returned."""

    @property
    def is_job(self) -> bool:
        """Whether another replica can continue the reply, so that its progress has to be saved."""
        ...

    async def record_calls(
        self, calls: Sequence[HostedCall], started: Collection[HostedCall], progress: Json | None
    ) -> None:
        """Records new calls and the progress of their loop. The calls of `started` are sent as soon as this returns."""
        ...

    async def start_call(self, call: HostedCall) -> None:
        """Records that a call is sent. It must not be sent before this returns."""
        ...

    async def finish_call(self, call: HostedCall, outcome: ToolOutcome) -> None:
        """Records the result of a call."""
        ...

    async def close(self) -> None:
        """Called last, also if the reply failed or was cancelled."""
        ...


class CompactedContext(NamedTuple):
    """A context with a summary in place of its older items.

    `item` is the compaction item for the client, `items` is the context of the model from now on, and `usage` is the
    usage of writing the summary.
    """

    item: Item
    items: Sequence[Item]
    usage: Usage | None


class ContextCompactor(Protocol):
    """Compacts the contexts of one response."""

    async def compact(self, turn: Turn, parts: HostedContextParts, last_usage: Usage | None) -> CompactedContext | None:
        """Returns the compacted context of the turn of the next round; None if no compaction is due.

        `parts` is its context, split. `last_usage` is the usage of the round before; None in the first round, and if
        the upstream reports none. Raises CompactionFailed, TurnFailed and ProviderError.
        """
        ...


class LoopObserver(Protocol):
    """Watches the rounds and the calls of one response. Its methods must not raise."""

    def begin_round(self) -> None:
        """A round is sent to the model next."""
        ...

    def end_round(self, usage: Usage | None, finish_reason: str | None) -> None:
        """A round is complete: its calls are run next, or the reply ends."""
        ...

    def end_call(self, tool: str, began_ns: int, figures: CallFigures) -> None:
        """A call has ended, which began at this time of the performance counter."""
        ...


MakeRound: TypeAlias = Callable[[Turn], Awaitable[Exchange]]
"""Makes the exchange of one round. Raises InvalidRequest, and StoreUnavailable."""


@runtime_checkable
class RoundMaker(Protocol):
    """A loop whose upstream can take over a round of another loop of the same request."""

    async def make_round_of(self, turn: Turn) -> Exchange:
        """Returns the exchange for the turn of another loop. Raises InvalidRequest, and StoreUnavailable."""
        ...


@dataclass(slots=True)
class LoopIO:
    """The state of one response with hosted tools besides its exchange. It is set before the exchange is opened.

    `journal` is None without a store. `interruption` is None unless another process began the response; `records` are
    then its calls in the journal, by the ids of their items.
    """

    journal: ReplyJournal | None = None
    interruption: Interruption | None = None
    records: Mapping[str, CallRecord] = field(default_factory=dict)
    events: ToolEvents | None = None
    """Reports the progress of the loop to the client; None if the request did not enable tool events."""
    report_loss: Callable[[Loss], None] = lambda _: None
    """A callback that gets losses which occur while calls run."""
    takes_input: bool = False
    """Whether the client can be asked for input that calls need."""
    locked_servers: frozenset[str] = frozenset()
    """Labels of servers whose credentials another replica sealed, and which this one cannot unseal."""
    share_round: Callable[[Turn, MakeRound], Exchange] | None = None
    """Makes the exchange of a round that may have several attempts; None if the model has one upstream."""
    citations: CitationTable = field(default_factory=CitationTable)
    """What the markers in the context of the model stand for."""
    observer: LoopObserver | None = None
    """The observer of the rounds and the calls, if there is one."""
    deferred: DeferredTools = field(default_factory=DeferredTools)
    """The tools that the model does not see before a search has loaded them."""
    trained_tools: Collection[str] = ()
    """The tools that the model knows from its training."""
    _losses: list[Loss] = field(default_factory=list)

    @property
    def is_resumed(self) -> bool:
        """Whether another process began the response."""
        return self.interruption is not None or bool(self.records or self.locked_servers)

    def report_loss_once(self, loss: Loss) -> None:
        """Reports a loss that occurs while calls run, unless it was reported before."""
        if loss not in self._losses:
            self._losses.append(loss)
            self.report_loss(loss)

    def add_media(self, items: list[Item]) -> list[Item]:
        """Returns the input with the images of results from before an interruption, which API items cannot hold."""
        media = {item_id: record.media for item_id, record in self.records.items() if record.media}
        if not media:
            return items
        return [
            {**item, "output": build_model_output(item["output"], media[item["call_id"]])}
            if item["type"] == "function_call_output" and item["call_id"] in media
            else item
            for item in items
        ]

    def may_continue_after(self, error: BaseException) -> bool:
        """Whether another process may continue the response after this error, so that nothing of it may be undone."""
        if self.journal is None or not self.journal.is_job:
            return False
        return self.interruption is not None or isinstance(error, asyncio.CancelledError | StoreUnavailable | LeaseLost)

    def require_credentials(self, label: str) -> None:
        """Raises McpFault for a server whose credentials cannot be unsealed: nothing is sent to it without them."""
        if label in self.locked_servers:
            raise McpFault(
                "credentials_unavailable",
                "the credentials of this server were sealed by a process that stopped, and cannot be unsealed here",
            )

    def find_outcome(self, call: HostedCall) -> ToolOutcome | None:
        """Returns the outcome of a call that was sent before: its result, or that the result is unknown.

        Returns None if the call is to be sent. A repeatable call without a result is sent again.
        """
        record = self.records.get(call.item_id)
        if record is None or record.state == "intended":
            return None
        if record.state == "finished":
            if record.item.get("status") == "incomplete":
                return build_execution_error(_INPUT_NOT_REQUESTED)
            return call.form.restore_outcome(record.item, record.media)
        return None if record.is_repeatable else build_unknown_outcome()
