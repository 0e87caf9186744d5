"""Reports output that a client's API has no form for, and fails a reply of which nothing else is left."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from translation.representation.delta_runs import EventStage, TextKey, TextObserver
from translation.representation.events import (
    Annotated,
    Event,
    Failed,
    Finished,
    ItemStarted,
    Noted,
    Opaque,
    PartStarted,
)
from translation.representation.loss import THOUGHT_IMAGE

UNREPORTED_FACT: Final = "unreported"
"""The name of the fact that a reply lacks something: a result that was requested, by the client's parameter, or output
of the model, as `output.TYPE`."""

TEXT_ITEMS: Final = frozenset({"message", "reasoning", "function_call"})
"""Types of items that every API shows, unless its client asked not to see them. Calls of custom tools, whose input is
text, are not among them: some APIs have only calls with the JSON of an object."""

STEP_ITEMS: Final = frozenset(
    {
        *("web_search_call", "file_search_call", "code_interpreter_call"),
        *("tool_search_call", "tool_search_output", "compaction"),
        *("mcp_list_tools", "mcp_call", "mcp_approval_request"),
    }
)
"""Types of items that are steps to the answer: what they found is in its text, and APIs without such items lose
nothing of it."""

FILE_CITATION: Final = "file_citation"
"""The type of annotations that cite a file. Nothing of them is in the text, unlike the links that cite pages."""

_THOUGHT_PARTS: Final = frozenset({"reasoning_text", "summary_text"})

_OUTPUT_APART: Final = frozenset({Opaque})
_PLACES: Final = frozenset({ItemStarted, PartStarted, Opaque, Annotated})
"""The types of events that say where output is, or that it has no place, and that have more output than text."""
_PLACES_AND_END: Final = _PLACES | {Finished}

_THOUGHT_IMAGE: Final = THOUGHT_IMAGE.removeprefix("output.")

_VISIBLE_PARTS: Final = frozenset({"output_text", "refusal"}) | _THOUGHT_PARTS


class InvisibleOutputCheck:
    """A stage that notes the output which an API does not show: items that are not of `visible_items`, and parts.

    With None the API shows all items with all their parts, and lacks only output that is no part of an item. The stage
    adds the fact `unreported` for each type before the end, and says so in the end itself, which encoders show at the
    end of a stream. If nothing of the answer is shown, the reply fails instead. Citations of files are such output,
    unless the API `cites_files`. `event_stage` sees the events first.
    """

    def __init__(
        self, visible_items: frozenset[str] | None, event_stage: EventStage | None, *, cites_files: bool = False
    ) -> None:
        self._visible_items = visible_items
        self._event_stage = event_stage
        self._cites_files = cites_files
        self._has_answer = False
        self._watched = _PLACES
        """The types of events that are examined."""
        self._invisible: dict[str, None] = {}

    def delta_observers(self, text_key: TextKey) -> Sequence[TextObserver] | None:
        """Returns the observers of the stage before. Deltas are of parts that were examined."""
        return () if self._event_stage is None else self._event_stage.delta_observers(text_key)

    def feed(self, batch: Sequence[Event]) -> Sequence[Event]:
        events = batch if self._event_stage is None else self._event_stage.feed(batch)
        shows_items = self._visible_items is None and not self._invisible
        # Of the last batch of an API that shows all items, only output that is no part of an item counts.
        watched = _OUTPUT_APART if shows_items and events and type(events[-1]) is Finished else self._watched
        if watched.isdisjoint(map(type, events)):
            return events
        for event in events:
            kind = type(event)
            if kind not in _PLACES:
                continue
            if isinstance(event, ItemStarted):
                self._examine_item(event.item["type"])
            elif isinstance(event, Annotated):
                if not self._cites_files and event.annotation.get("type") == FILE_CITATION:
                    self._invisible[FILE_CITATION] = None
            elif isinstance(event, PartStarted):
                self._examine_part(event.part.get("type"))
            elif isinstance(event, Opaque) and event.is_output and isinstance(part := event.payload, dict):
                self._invisible[str(part.get("type") or next(iter(part), "part"))] = None
        if self._invisible:
            self._watched = _PLACES_AND_END
            if isinstance(end := events[-1], Finished):
                return [*events[:-1], *self._end(end)]
        elif self._has_answer and self._visible_items is None:
            self._watched = _OUTPUT_APART  # all items are shown, and that one is an answer is known
        return events

    def _examine_item(self, kind: str) -> None:
        if self._visible_items is None or kind in self._visible_items:
            # A message is an answer by its parts.
            self._has_answer = self._has_answer or kind not in ("reasoning", "message")
        elif kind not in STEP_ITEMS:
            self._invisible[kind] = None

    def _examine_part(self, kind: str | None) -> None:
        if self._visible_items is not None and kind not in _VISIBLE_PARTS:
            self._invisible[str(kind)] = None
        else:
            self._has_answer = self._has_answer or kind not in _THOUGHT_PARTS

    def _end(self, finished: Finished) -> list[Event]:
        if not (self._has_answer or self._invisible.keys() == {_THOUGHT_IMAGE}):
            kinds = ", ".join(kind[:_MAX_KIND_CHARS] for kind in self._invisible)
            message = f"the model replied with output that this API has no form for: {kinds}"
            return [Failed("upstream_error", message, usage=finished.usage)]
        lacks = tuple(f"output.{kind[:_MAX_KIND_CHARS]}" for kind in self._invisible)
        return [
            *(Noted(facts={UNREPORTED_FACT: name}) for name in lacks),
            replace(finished, lacks=(*finished.lacks, *lacks)),
        ]


_MAX_KIND_CHARS: Final = 50
