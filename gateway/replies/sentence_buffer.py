"""Collects the text of a stream to whole sentences: the setting `server.sentence_buffer`."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from translation.representation.delta_runs import EventStage, TextKey, TextObserver
from translation.representation.events import Delta, Event, Noted

_MAX_CHARS: Final = 2000
"""Longer text without the end of a sentence, such as code in one line, is not held back."""

_QUOTES: Final = "\"'\u2019\u201d\u00bb"
_SENTENCE_END: Final = re.compile(
    rf"(?:(?<![.!?\u2026])[.!?\u2026]++[{_QUOTES})\]*_`]*+\s++"
    rf"|(?<![\u3002\uff01\uff1f])[\u3002\uff01\uff1f]++[{_QUOTES}\u300d\u300f\uff09]*+\s*+"
    r"|(?<!\s)[^\S\n]*+\n\s*+)(?=\S)"
)
"""The end of a sentence or of a line, with the white space after it: a Latin full stop needs white space, a Chinese or
Japanese one does not. An end begins where a run of such characters begins, so a long run is read once. The character
that follows shows the end, so it does not matter where deltas are cut."""


class SentenceBuffer:
    """A stage of the reply that turns the deltas of a text into one delta per sentence.

    Arguments of calls pass unchanged. A text that ends, or is followed by anything else such as a call, is completed
    at once. Deltas with log probabilities are not cut: a sentence then ends between two of them. `event_stage` sees the
    events first.
    """

    def __init__(self, event_stage: EventStage | None = None) -> None:
        self._event_stage = event_stage
        self._deltas: list[Delta] = []
        """The beginning of a sentence: deltas of one part."""
        self._length = 0
        self._inner_ends = 0
        """The number of sentence ends inside the first of `_deltas`, which was not cut there."""

    def delta_observers(self, text_key: TextKey) -> Sequence[TextObserver] | None:
        """Returns None for the text of parts, which must be fed. For arguments, the stage before decides."""
        if text_key[1] is not None:
            return None
        return () if self._event_stage is None else self._event_stage.delta_observers(text_key)

    def feed(self, batch: Sequence[Event]) -> list[Event]:
        """Returns the sentences that the batch completes, and its other events."""
        events: list[Event] = []
        for event in batch if self._event_stage is None else self._event_stage.feed(batch):
            if isinstance(event, Delta) and event.part_index is not None:
                events += self._feed_delta(event)
            elif isinstance(event, Noted):
                events.append(event)  # usage may be reported in the middle of a text
            else:
                events += self._flush()
                events.append(event)
        return events

    def _feed_delta(self, delta: Delta) -> Iterator[Event]:
        held = self._deltas
        if held and (held[0].index, held[0].part_index) != (delta.index, delta.part_index):
            yield from self._flush()
        is_divisible = not (
            delta.logprobs or delta.token_ids or any(other.logprobs or other.token_ids for other in held)
        )
        held.append(delta)
        self._length += len(delta.text)
        text = "".join(other.text for other in held)
        ends = [match.end() for match in _SENTENCE_END.finditer(text)]
        if is_divisible:
            for start, end in zip([0, *ends], ends, strict=False):
                yield Delta(delta.index, delta.part_index, text[start:end])
            if ends:
                self._hold(Delta(delta.index, delta.part_index, text[ends[-1] :]))
        elif len(ends) > self._inner_ends:
            held.pop()
            yield from self._flush()
            self._hold(delta)
            self._inner_ends = sum(1 for _ in _SENTENCE_END.finditer(delta.text))
        if self._length > _MAX_CHARS:
            yield from self._flush()

    def _hold(self, delta: Delta) -> None:
        self._deltas[:] = [delta]
        self._length = len(delta.text)

    def _flush(self) -> list[Event]:
        """Returns the held beginning of a sentence as one delta."""
        if not self._deltas:
            return []
        first = self._deltas[0]
        merged = Delta(
            first.index,
            first.part_index,
            "".join(delta.text for delta in self._deltas),
            [entry for delta in self._deltas for entry in delta.logprobs or ()] or None,
            [token for delta in self._deltas for token in delta.token_ids or ()] or None,
        )
        self._deltas.clear()
        self._length = self._inner_ends = 0
        return [merged]
