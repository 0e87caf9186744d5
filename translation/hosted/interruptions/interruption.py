"""An interrupted loop: its saved progress and its sent output, with which another process continues it."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from translation.hosted.calls import HostedCall
from translation.hosted.interruptions.sent_output import SentOutput
from translation.hosted.outcomes import ToolOutcome, build_execution_error
from translation.representation.json_types import Item, Json

OUTCOME_UNKNOWN: Final = "outcome unknown: the gateway stopped during this call; it was not repeated"
"""The error that the model reads for a call that may have been run."""


def build_unknown_outcome() -> ToolOutcome:
    """Returns the outcome of a call that was started, and whose result is not known."""
    return build_execution_error(OUTCOME_UNKNOWN)


class Interruption(NamedTuple):
    """An interrupted loop.

    `progress` comes from the last `ToolLoop.save_progress`; None if its first round had not ended.
    """

    progress: Json | None
    sent: SentOutput

    @property
    def first_unsaved(self) -> int:
        """The index of the first item of the round that was interrupted; its items are not in the progress."""
        return 0 if self.progress is None else self.progress["items"]

    @property
    def is_resumable(self) -> bool:
        """Whether the loop can continue without sending anything twice that clients act on."""
        return self.sent.may_be_repeated(self.first_unsaved)

    @property
    def context_items(self) -> list[Item]:
        """The items of the rounds before, as far as they were sent whole."""
        return self.sent.whole_items(self.first_unsaved)


def list_unsent_entries(saved_queue: Sequence[Json], sent: SentOutput) -> Sequence[Json]:
    """Returns the entries of a saved queue that were not sent. They begin with the first call that has not ended."""
    for position, entry in enumerate(saved_queue):
        if "call" in entry and not sent.has_ended(entry["call"]["index"]):
            return saved_queue[position:]
    return ()


def save_entries(entries: Sequence[tuple[int, Item | HostedCall]], first: int) -> list[Json]:
    """Returns the entries of a round from the index `first` on, which the model has to read besides the sent items."""
    return [
        {"index": index, "call": entry.item_id} if isinstance(entry, HostedCall) else {"index": index, "item": entry}
        for index, entry in entries
        if index >= first
    ]


def restore_entries(saved: Sequence[Json], calls: dict[str, HostedCall], sent: SentOutput) -> list[Item | HostedCall]:
    """Returns the saved entries that were not sent. `calls` are the calls of the queue, by the ids of their items."""
    unsent: list[Any] = [entry for entry in saved if not sent.has_ended(entry["index"])]
    return [calls[entry["call"]] if "call" in entry else entry["item"] for entry in unsent]
