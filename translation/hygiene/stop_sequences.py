"""Ends a reply before a stop sequence, for upstreams that have no stop sequences themselves."""

from collections.abc import Sequence
from typing import Final

from translation.representation.delta_runs import TextKey
from translation.representation.events import (
    STOP_SEQUENCE_FACT,
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    PartEnded,
    PartStarted,
    Usage,
)
from translation.representation.items import CALL_TYPES
from translation.representation.token_logprobs import TokenLogprobs


class _AnswerText:
    """The text of one open part of the answer. Text that may be the beginning of a stop sequence is held back."""

    def __init__(self, key: TextKey, sequences: Sequence[str]) -> None:
        self._index, self._part_index = key
        self._strings = StopStrings(sequences)
        self._logprobs = TokenLogprobs()

    @property
    def sequence(self) -> str | None:
        """The stop sequence that ended the text."""
        return self._strings.met

    def feed(self, delta: Delta) -> list[Event]:
        """Adds a delta. Returns the delta of the text that is certainly before a stop sequence, if there is any."""
        text = self._strings.feed(delta.text)
        if text == delta.text and delta.logprobs is None:
            return [delta]
        self._logprobs.add(delta.logprobs or ())
        return self._build_delta(text)

    def finish(self) -> list[Event]:
        """Returns the text that was held back. It was no stop sequence."""
        return self._build_delta(self._strings.finish())

    def _build_delta(self, text: str) -> list[Event]:
        return [Delta(self._index, self._part_index, text, self._logprobs.take(text))] if text else []


class StopSequenceCutter:
    """Ends the events of a reply where its answer has a stop sequence.

    Only text of messages counts, as with upstreams that have stop sequences: reasoning, refusals and calls do not. What
    follows in the same batch is dropped, except for its token counts and other facts.
    """

    def __init__(self, sequences: Sequence[str]) -> None:
        self.is_met = False
        """Whether the reply has ended at a stop sequence. Nothing of the upstream is needed any more."""
        self._sequences: Final = sequences
        self._open_items: dict[int, str] = {}
        """The types of the items that have not ended, by their indexes."""
        self._open_parts: dict[TextKey, _AnswerText | None] = {}
        """The parts that have not ended. None: stop sequences do not count in it."""
        self._has_calls = False

    def inspects(self, text_key: TextKey) -> bool:
        """Whether the deltas of a text have to be fed."""
        return self._open_parts.get(text_key) is not None

    def feed(self, batch: Sequence[Event]) -> list[Event]:
        """Returns the events of a batch that are certainly before a stop sequence, and the end if there is one."""
        events: list[Event] = []
        for position, event in enumerate(batch):
            if isinstance(event, Delta):
                text = self._open_parts.get((event.index, event.part_index))
                if text is None:
                    events.append(event)
                    continue
                events += text.feed(event)
                if text.sequence is not None:
                    self.is_met = True
                    return [*events, *self._end_items(event.index), *self._end(text.sequence, batch[position + 1 :])]
            else:
                self._track(event, events)
                events.append(event)
        return events

    def _track(self, event: Event, out: list[Event]) -> None:
        match event:
            case ItemStarted():
                self._open_items[event.index] = event.item["type"]
                self._has_calls = self._has_calls or event.item["type"] in CALL_TYPES
            case PartStarted():
                key = (event.index, event.part_index)
                is_answer = event.part.get("type") == "output_text" and self._open_items[event.index] == "message"
                self._open_parts[key] = _AnswerText(key, self._sequences) if is_answer else None
            case PartEnded():
                if (text := self._open_parts.pop((event.index, event.part_index), None)) is not None:
                    out += text.finish()
            case ItemEnded():
                self._open_items.pop(event.index, None)
            case Failed():
                for text in self._open_parts.values():
                    out += text.finish() if text is not None else ()

    def _end_items(self, answer_index: int) -> list[Event]:
        """Returns the ends of all open items. Those beside the answer are incomplete."""
        events: list[Event] = [PartEnded(*key) for key in self._open_parts]
        return events + [
            ItemEnded(index, None, "completed" if index == answer_index else "incomplete") for index in self._open_items
        ]

    def _end(self, sequence: str, rest: Sequence[Event]) -> list[Event]:
        """Returns the end of the reply. `rest` are the events that follow the answer in its batch."""
        usage: Usage | None = None
        facts = {STOP_SEQUENCE_FACT: sequence}
        for event in rest:
            if isinstance(event, Noted | Finished):
                usage = event.usage or usage
            if isinstance(event, Noted):
                facts = {**(event.facts or {}), **facts}
        return [Noted(facts=facts), Finished("tool_calls" if self._has_calls else "stop", "stop", usage)]


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
