"""What a response with hosted tools has besides its exchange: its journal, and where it was interrupted."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.errors import StoreUnavailable
from gateway.mcp.errors import McpFault
from gateway.state.call_records import CallRecord
from gateway.state.store import LeaseLost
from gateway.tools.response_journal import Journal
from gateway.tools.tool_events import ToolEvents
from translation.hosted.calls import HostedCall
from translation.hosted.interruptions.interruption import Interruption, unknown_outcome
from translation.hosted.outcomes import ToolOutcome, execution_error, model_output_of
from translation.representation.json_types import Item
from translation.representation.loss import Loss

_NOT_ASKED: Final = (
    "outcome unknown: the tool asked for input, and the gateway stopped before the user was asked; it was not repeated"
)


@dataclass(slots=True)
class ToolRun:
    """The state of one response outside of its process. Set before its exchange is opened.

    `journal` is None without a store. `interruption` is None unless another
    process began it; `records` are then its calls in the journal, by the ids of their items.
    """

    journal: Journal | None = None
    interruption: Interruption | None = None
    records: Mapping[str, CallRecord] = field(default_factory=dict)
    events: ToolEvents | None = None
    """Reports what the loop does to people who watch; None if nobody asked for that."""
    report_loss: Callable[[Loss], None] = lambda _: None
    """Is called with what is lost while calls run."""
    takes_input: bool = False
    """Whether the client can be asked for input that calls need."""
    locked_servers: frozenset[str] = frozenset()
    """Labels of servers whose credentials another replica sealed, and this one cannot open."""
    _losses: list[Loss] = field(default_factory=list)

    @property
    def is_resumed(self) -> bool:
        """Whether another process began the response."""
        return self.interruption is not None or bool(self.records or self.locked_servers)

    def note_loss(self, loss: Loss) -> None:
        """Reports what is lost while calls run, once."""
        if loss not in self._losses:
            self._losses.append(loss)
            self.report_loss(loss)

    def add_media(self, items: list[Item]) -> list[Item]:
        """Returns the input with the images of results before an interruption, which items of the API do not have."""
        media = {item_id: record.media for item_id, record in self.records.items() if record.media}
        if not media:
            return items
        return [
            {**item, "output": model_output_of(item["output"], media[item["call_id"]])}
            if item["type"] == "function_call_output" and item["call_id"] in media
            else item
            for item in items
        ]

    def goes_on_after(self, error: BaseException) -> bool:
        """Whether another process may go on with the response after this error, so that nothing of it may be undone."""
        if self.journal is None or not self.journal.is_job:
            return False
        return self.interruption is not None or isinstance(error, asyncio.CancelledError | StoreUnavailable | LeaseLost)

    def require_credentials(self, label: str) -> None:
        """Raises McpFault for a server whose credentials cannot be opened: nothing is sent to it without them."""
        if label in self.locked_servers:
            raise McpFault(
                "credentials_unavailable",
                "the credentials of this server were sealed by a server that stopped, and cannot be opened here",
            )

    def find_outcome(self, call: HostedCall) -> ToolOutcome | None:
        """Returns the outcome of a call that must not be sent, because it was sent before; None if it is to be sent.

        That is its result, or that the result is unknown. A repeatable call without a result is sent again.
        """
        record = self.records.get(call.item_id)
        if record is None or record.state == "intended":
            return None
        if record.state == "finished":
            if record.item.get("status") == "incomplete":
                return execution_error(_NOT_ASKED)
            return ToolOutcome(record.item["output"], record.item["error"], record.media)
        return None if record.is_repeatable else unknown_outcome()
