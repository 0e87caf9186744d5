"""A loop that was interrupted: its saved progress and what was sent, with which another process goes on."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final, NamedTuple

from translation.hosted.calls import HostedCall
from translation.hosted.interruptions.sent_output import SentOutput
from translation.hosted.outcomes import ToolOutcome, execution_error
from translation.representation.events import Usage
from translation.representation.json_types import Item, Json

OUTCOME_UNKNOWN: Final = "outcome unknown: the gateway stopped during this call; it was not repeated"
"""What the model reads about a call that may have been run."""


def unknown_outcome() -> ToolOutcome:
    """Returns the outcome of a call that was started, and whose result nobody has."""
    return execution_error(OUTCOME_UNKNOWN)


class Interruption(NamedTuple):
    """What is known of an interrupted loop. `progress` is what `ToolLoop.save_progress` last returned; None if its
    first round had not ended."""

    progress: Json | None
    sent: SentOutput

    @property
    def first_unsaved(self) -> int:
        """The index of the first item of the round that was interrupted; its items are not in the progress."""
        return 0 if self.progress is None else self.progress["items"]

    @property
    def can_go_on(self) -> bool:
        """Whether the loop can go on without sending anything twice that clients act on."""
        return self.sent.may_be_repeated(self.first_unsaved)

    @property
    def context_items(self) -> list[Item]:
        """The items that the model has read or written in the rounds before, as far as they were sent whole."""
        return self.sent.whole_items(self.first_unsaved)


def unsent_queue(saved_queue: Sequence[Json], sent: SentOutput) -> Sequence[Json]:
    """Returns the entries of a saved queue that were not sent: those from the first call on that has not ended."""
    for position, entry in enumerate(saved_queue):
        if "call" in entry and not sent.has_ended(entry["call"]["index"]):
            return saved_queue[position:]
    return ()


def save_usage(usage: Usage | None) -> Json | None:
    """Returns token counts as JSON."""
    return None if usage is None else asdict(usage)


def restore_usage(saved: Json | None) -> Usage | None:
    """Returns the token counts that `save_usage` saved."""
    return None if saved is None else Usage(**saved)


def save_entries(entries: Sequence[tuple[int, Item | HostedCall]], first: int) -> list[Json]:
    """Returns the entries of a round from the index `first` on: what the model has to read besides what was sent."""
    return [
        {"index": index, "call": entry.item_id} if isinstance(entry, HostedCall) else {"index": index, "item": entry}
        for index, entry in entries
        if index >= first
    ]


def restore_entries(saved: Sequence[Json], calls: dict[str, HostedCall], sent: SentOutput) -> list[Item | HostedCall]:
    """Returns the saved entries that were not sent. `calls` are the calls of the queue, by the ids of their items."""
    unsent: list[Any] = [entry for entry in saved if not sent.has_ended(entry["index"])]
    return [calls[entry["call"]] if "call" in entry else entry["item"] for entry in unsent]
