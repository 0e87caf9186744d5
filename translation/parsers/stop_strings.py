"""Finds the first stop string in a text that arrives in pieces."""

from collections.abc import Sequence


class StopStrings:
    """Cuts a text before the first complete stop string. Text that may be the beginning of one is held back."""

    def __init__(self, stop: Sequence[str]) -> None:
        self.met: str | None = None
        """The stop string that ended the text."""
        self._stop = tuple(filter(None, stop))
        self._pending = ""

    def feed(self, text: str) -> str:
        """Adds text. Returns the text that is certainly before a stop string."""
        if not self._stop or self.met is not None:
            return text if self.met is None else ""
        text, self._pending = self._pending + text, ""
        matches = [(start + len(stop), start, stop) for stop in self._stop if (start := text.find(stop)) >= 0]
        if matches:
            _, start, self.met = min(matches)
            return text[:start]
        pending_size = max(
            (
                size
                for stop in self._stop
                for size in range(1, min(len(stop), len(text) + 1))
                if text.endswith(stop[:size])
            ),
            default=0,
        )
        self._pending = text[len(text) - pending_size :]
        return text[: len(text) - pending_size]

    def finish(self) -> str:
        """Returns the text that was held back. It was not a stop string."""
        pending, self._pending = self._pending, ""
        return pending
