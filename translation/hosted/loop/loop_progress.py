"""The progress of a loop: its state that outlives a round, as one value that is saved as JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from translation.representation.events import Failed, Finished, Usage, add_usage
from translation.representation.json_types import Json

_MIN_OUTPUT_TOKENS: Final = 16
"""The smallest `max_output_tokens` that the Responses API takes. With less left, the reply ends."""


@dataclass(slots=True)
class LoopProgress:
    """The progress of one response over its rounds."""

    round: int = 0
    """The number of the round whose turn was returned last, from 1."""
    usage: Usage | None = None
    """The usage of all rounds that have ended."""
    summary_usage: Usage | None = None
    """The usage of the summaries that replaced parts of the context."""
    warnings: list[Json] = field(default_factory=list)
    finished: Finished | None = None
    """The end of the current round; None before it."""
    end: Finished | Failed | None = None
    """The end of the reply, once it is decided that no round follows."""

    def to_json(self) -> Json:
        """Returns the progress as JSON. Of the ends it has the reasons: a loop that failed is not continued."""
        return {
            "round": self.round,
            "usage": _save_usage(self.usage),
            "summary_usage": _save_usage(self.summary_usage),
            "warnings": self.warnings,
            "reason": None if self.finished is None else self.finished.reason,
            "end": self.end.reason if isinstance(self.end, Finished) else None,
        }

    @classmethod
    def from_json(cls, saved: Json) -> "LoopProgress":
        """Returns the progress from the result of `to_json`."""
        return cls(
            round=saved["round"],
            usage=_restore_usage(saved["usage"]),
            summary_usage=_restore_usage(saved.get("summary_usage")),  # older servers save none
            warnings=[*saved["warnings"]],
            finished=None if saved["reason"] is None else Finished(saved["reason"]),
            end=None if saved["end"] is None else Finished(saved["end"]),
        )

    def add_usage(self, usage: Usage | None) -> None:
        """Adds the usage of a round that has ended."""
        self.usage = add_usage(self.usage, usage)

    def add_summary_usage(self, usage: Usage | None) -> None:
        """Adds the usage of a summary."""
        self.summary_usage = add_usage(self.summary_usage, usage)

    def end_unasked(self) -> None:
        """Ends a reply for which no model was asked."""
        if self.end is None:
            self.usage = Usage(input=0, output=0, cache_read=0, reasoning=0)
            self.end = Finished("stop")

    def end_for_input(self) -> None:
        """Ends the reply with the current round, because the client is asked for input."""
        if self.finished is None:
            self.end_unasked()
        else:
            self.end = self.end or replace(self.finished, reason="stop")

    def end_if_spent(self, limit: int | None) -> None:
        """Ends the reply as cut if the model may write at most `limit` tokens, and too few are left."""
        left = self.count_remaining_tokens(limit)
        if limit is None or left is None or self.end is not None or self.finished is None:
            return
        if left < min(limit, _MIN_OUTPUT_TOKENS):
            self.end = replace(self.finished, reason="length")

    def count_remaining_tokens(self, limit: int | None) -> int | None:
        """Returns how many of `limit` tokens the model may still write; None if there is no limit."""
        if limit is None or self.usage is None or self.usage.output is None:
            return limit
        return limit - self.usage.output

    def build_end_events(self) -> Sequence[Finished | Failed]:
        """Returns the terminal event with the usage of the whole reply; none before `end` is set."""
        if self.end is None:
            return ()
        usage = self.usage if self.summary_usage is None else add_usage(self.usage, self.summary_usage)
        return (self.end if usage is self.end.usage else replace(self.end, usage=usage),)


def _save_usage(usage: Usage | None) -> Json | None:
    return None if usage is None else asdict(usage)


def _restore_usage(saved: Json | None) -> Usage | None:
    return None if saved is None else Usage(**saved)
