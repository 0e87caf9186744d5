"""Records in which pieces an upstream sent its reasoning and its calls, for the field `extensions` of a reply."""

from collections.abc import Sequence

from translation.chat import reply_objects
from translation.encoding.visible_output import FILE_CITATION
from translation.representation.events import Delta, Event, ItemEnded, ItemStarted, Noted
from translation.representation.items import move_annotation
from translation.representation.json_types import Json

_CALL_BODY_KEYS: dict[reply_objects.ReplyField, str] = {"arguments": "function", "input": "custom"}


class ChunkRecorder:
    """Records one reply. The caller feeds batches that satisfy the event grammar."""

    def __init__(self) -> None:
        self._reasoning: list[str] = []
        self._tool_calls: list[Json] = []
        self._types: list[str] = []
        self._call_numbers: dict[int, int] = {}
        self._mcp_calls: list[Json] = []
        self._file_citations: list[Json] = []

    def feed(self, batch: Sequence[Event]) -> None:
        """Takes one batch of events."""
        for event in batch:
            if isinstance(event, Delta):
                self._record_delta(event)
            elif isinstance(event, ItemStarted):
                self._types.append(event.item["type"])
                if (field := reply_objects.REPLY_FIELDS.get((event.item["type"], None))) is not None:
                    number = self._call_numbers[event.index] = len(self._call_numbers)
                    self._tool_calls.append(
                        {"index": number, **reply_objects.build_call(event.item, event.item.get(field) or "")}
                    )
            elif isinstance(event, Noted):
                self._mcp_calls = (event.facts or {}).get(reply_objects.MCP_CALLS, self._mcp_calls)
            elif isinstance(event, ItemEnded) and event.index in self._call_numbers:
                status = event.status if event.item is None else event.item.get("status", event.status)
                self._tool_calls.append({"index": self._call_numbers[event.index], "status": status})

    def add_citation(self, annotation: Json) -> None:
        """Records an annotation of the answer if it cites a file. Its positions are those in the whole answer."""
        if annotation.get("type") == FILE_CITATION:
            self._file_citations.append(annotation)

    def build_extensions(self) -> Json:
        """Returns the value of `extensions`.

        `reasoning_chunks` are texts. `tool_call_chunks` are as in a stream's `delta.tool_calls`: for each call its
        start, the pieces of its arguments, and its end with the `status` of the call. `mcp_calls` are the calls that
        the gateway ran, and `file_citations` the places of the text that cite files, if there are any.
        """
        more = {reply_objects.MCP_CALLS: self._mcp_calls, "file_citations": self._file_citations}
        present = {name: values for name, values in more.items() if values}
        return {"reasoning_chunks": self._reasoning, "tool_call_chunks": self._tool_calls, **present}

    def _record_delta(self, event: Delta) -> None:
        item_type = self._types[event.index]
        if item_type == "reasoning":
            self._reasoning.append(event.text)
        elif event.index in self._call_numbers:
            field = reply_objects.REPLY_FIELDS[item_type, None]
            self._tool_calls.append(
                {"index": self._call_numbers[event.index], _CALL_BODY_KEYS[field]: {field: event.text}}
            )


def place_citation(annotation: Json, start: int, recorder: ChunkRecorder | None) -> Json | None:
    """Returns chat's annotation for an annotation of a text that begins at `start` in the whole answer.

    None if it does not cite a URL. Citations of files are recorded instead, if there is a recorder.
    """
    moved = move_annotation(annotation, start)
    if recorder is not None:
        recorder.add_citation(moved)
    return reply_objects.build_citation(moved)
