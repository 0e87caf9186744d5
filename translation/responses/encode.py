"""Events to the Responses API's stream: whole frames, in the API's order, numbered without gaps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, assert_never

import orjson

from translation import sse
from translation.channels import CHANNELS, Channel
from translation.collect import PartState
from translation.events import (
    Annotated,
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    Opaque,
    PartEnded,
    PartStarted,
    Progressed,
    Started,
)
from translation.json_types import Json
from translation.responses.sealed import ItemSeal
from translation.responses.snapshot import Snapshot

_OUTPUT_TEXT = "response.output_text"
"""The one channel whose events must have `logprobs`, empty or not."""

_FUNCTION_ARGUMENTS = "response.function_call_arguments"
"""The one channel whose `done` event repeats the call's name."""

_NO_LOGPROBS = b"[]}\n\n"
"""How a text delta ends when it has none."""


class _PartKind(NamedTuple):
    """`<name>.added` and `<name>.done` are event types; `index_key` is where they say which part of the item it is."""

    name: str
    index_key: str


_CONTENT = _PartKind("response.content_part", "content_index")
_SUMMARY = _PartKind("response.reasoning_summary_part", "summary_index")


@dataclass(slots=True)
class _Text:
    """One text on its way out: where it goes, and the frame its deltas are cut from."""

    state: PartState
    address: Json
    channel: Channel | None
    template: bytes
    """A `%`-format for sequence number and encoded text: a fifth of what building and dumping a dict costs."""
    append: Callable[[str], None]
    """`state.append`: looked up once, called for every delta."""
    open: bool = True


class ResponsesEncoder:
    """Batches in, whole LF frames out, ending with [DONE] after the terminal event.

    `head` is the object from `new_response`; `clock` gives epoch seconds. Batches must satisfy `translation.grammar`.
    `ended` once the terminal event is out. `seal`: what seals items on their way out.
    """

    def __init__(self, head: Json, clock: Callable[[], int], seal: ItemSeal | None = None) -> None:
        self.ended = False
        self._end_bytes = 0
        self._snapshot = Snapshot(head, clock, seal)
        self._sequence = -1
        self._texts: dict[tuple[int, int | None], _Text] = {}

    @property
    def failed(self) -> Failed | None:
        """How it ended badly."""
        return self._snapshot.failed

    @property
    def response(self) -> Json:
        """The response object as it is now; once ended, the one the terminal event held."""
        return self._snapshot.response

    def feed(self, batch: Sequence[Event]) -> bytes:
        """Take one batch; return its frames, possibly none."""
        frames: list[bytes] = []
        texts = self._texts
        for event in batch:
            if type(event) is Delta:  # nine events in ten: they touch nothing but their own text
                piece = event.text
                text = texts[event.index, event.part_index]
                text.append(piece)
                if text.channel is None:
                    continue
                if event.logprobs:
                    frames.append(self._delta_with_logprobs(text, piece, event.logprobs))
                else:
                    self._sequence += 1
                    frames.append(text.template % (self._sequence, orjson.dumps(piece)))
                continue
            if self._sequence < 0 and isinstance(event, Failed):
                # A turn may fail before it starts; clients want to hear of a response before it ends.
                frames += self._open()
            self._snapshot.apply(event)
            frames += self._write(event)
        return frames[0] if len(frames) == 1 else b"".join(frames)

    def withdraw(self, frames: bytes) -> bytes:
        """`frames`, which the last `feed` gave, without the terminal event: as if it had not come yet."""
        self.ended = False
        self._sequence -= 1
        return frames[: -self._end_bytes]

    def _delta_with_logprobs(self, text: _Text, piece: str, logprobs: list[Json]) -> bytes:
        text.state.add_logprobs(logprobs)
        frame = self._delta_frame(text, piece)
        if frame.endswith(_NO_LOGPROBS):
            return b"%b%b}\n\n" % (frame.removesuffix(_NO_LOGPROBS), orjson.dumps(logprobs))
        return frame

    def _write(self, event: Event) -> list[bytes]:
        match event:
            case ItemStarted():
                return self._start_item(event)
            case PartStarted():
                return self._start_part(event)
            case PartEnded():
                return self._end_part(event)
            case ItemEnded():
                return self._end_item(event)
            case Annotated():
                return self._annotate(event)
            case Progressed():
                return self._progress(event)
            case Opaque():
                return self._forward(event)
            case Started():
                return self._open()
            case Finished() | Failed():
                return self._end()
            case Noted() | Delta():
                return []  # usage and facts are told by the terminal event; deltas are written by feed
            case _:
                assert_never(event)

    def _frame(self, event_type: str, fields: Json) -> bytes:
        self._sequence += 1
        return sse.encode(event_type, orjson.dumps({"type": event_type, "sequence_number": self._sequence} | fields))

    def _delta_frame(self, text: _Text, piece: str) -> bytes:
        self._sequence += 1
        return text.template % (self._sequence, orjson.dumps(piece))

    def _open(self) -> list[bytes]:
        lifecycle = {"response": self.response}
        return [self._frame("response.created", lifecycle), self._frame("response.in_progress", lifecycle)]

    def _end(self) -> list[bytes]:
        self.ended = True
        end = self._frame(f"response.{self.response['status']}", {"response": self.response}) + sse.DONE
        self._end_bytes = len(end)
        return [end]

    def _start_item(self, event: ItemStarted) -> list[bytes]:
        index = event.index
        item = self._snapshot.items[index].start
        address = {"item_id": item["id"], "output_index": index}
        channel = CHANNELS.get((item["type"], None))
        text = self._texts[index, None] = _new_text(self._snapshot.items[index].part(None), address, channel)
        added = self._frame("response.output_item.added", {"output_index": index, "item": _emptied(item, channel)})
        return [added, *self._write_rest(text, "", item)]

    def _start_part(self, event: PartStarted) -> list[bytes]:
        item = self._snapshot.items[event.index]
        kind = _kind_of(event.part)
        position = sum(_kind_of(part.start) is kind for part in item.parts[:-1])
        address = {**self._texts[event.index, None].address, kind.index_key: position}
        channel = CHANNELS.get((item.type, event.part.get("type")))
        text = self._texts[event.index, event.part_index] = _new_text(item.parts[-1], address, channel)
        added = self._frame(f"{kind.name}.added", {**address, "part": _emptied(event.part, channel)})
        return [added, *self._write_rest(text, "", event.part)]

    def _end_part(self, event: PartEnded) -> list[bytes]:
        text = self._texts[event.index, event.part_index]
        part = text.state.snapshot()
        if event.part_index is not None:
            frames = self._end_text(text, part)
            frames.append(self._frame(f"{_kind_of(text.state.start).name}.done", {**text.address, "part": part}))
            return frames
        if part["type"] == "function_call" and not part.get("arguments"):
            return []  # whether they become "{}" depends on how the item ends
        return self._end_text(text, part)

    def _end_item(self, event: ItemEnded) -> list[bytes]:
        text = self._texts[event.index, None]
        item = self._snapshot.items[event.index].snapshot()
        frames = self._end_text(text, item) if text.open else []
        frames.append(self._frame("response.output_item.done", {"output_index": event.index, "item": item}))
        return frames

    def _end_text(self, text: _Text, whole: Json) -> list[bytes]:
        """The text's `done` event, after a delta of what no delta has said: `done` only repeats."""
        text.open = False
        if text.channel is None or not isinstance(said := whole.get(text.channel.key), str):
            return []
        frames = self._write_rest(text, text.state.text, whole)
        fields = {**text.address, text.channel.key: said}
        if text.channel.name == _OUTPUT_TEXT:
            fields["logprobs"] = whole.get("logprobs") or []
        elif text.channel.name == _FUNCTION_ARGUMENTS:
            fields["name"] = whole.get("name")
        frames.append(self._frame(f"{text.channel.name}.done", fields))
        return frames

    def _write_rest(self, text: _Text, said: str, whole: Json) -> list[bytes]:
        """A delta of what `whole` says beyond `said`, if anything."""
        everything = (text.channel and whole.get(text.channel.key)) or ""
        if len(everything) <= len(said) or not everything.startswith(said):
            return []
        return [self._delta_frame(text, everything[len(said) :])]

    def _annotate(self, event: Annotated) -> list[bytes]:
        text = self._texts[event.index, event.part_index]
        position = len(text.state.annotations) - 1
        fields = {**text.address, "annotation_index": position, "annotation": event.annotation}
        return [self._frame("response.output_text.annotation.added", fields)]

    def _progress(self, event: Progressed) -> list[bytes]:
        fields = {**self._texts[event.index, None].address, **(event.extra or {})}
        return [self._frame(f"response.{self._snapshot.items[event.index].type}.{event.phase}", fields)]

    def _forward(self, event: Opaque) -> list[bytes]:
        # Before response.created no event has a place; what an upstream says that early is dropped.
        if event.dialect != "responses" or self._sequence < 0:
            return []
        fields = {key: value for key, value in event.payload.items() if key != "sequence_number"}
        if event.index is not None:
            ours = self._texts[event.index, None].address
            fields |= {key: value for key, value in ours.items() if key in fields}
        return [self._frame(fields["type"], fields)]


def _kind_of(part: Json) -> _PartKind:
    return _SUMMARY if part.get("type") == "summary_text" else _CONTENT


def _emptied(whole: Json, channel: Channel | None) -> Json:
    """What is announced has no text yet: clients add up deltas, and some read nothing else."""
    return {**whole, channel.key: ""} if channel is not None and whole.get(channel.key) else whole


def _new_text(state: PartState, address: Json, channel: Channel | None) -> _Text:
    if channel is None:
        return _Text(state, address, None, b"", state.append)
    event_type = f"{channel.name}.delta".encode()
    logprobs = b',"logprobs":[]' if channel.name == _OUTPUT_TEXT else b""
    fields = orjson.dumps(address)[1:-1].replace(b"%", b"%%")
    template = b'event: %b\ndata: {"type":"%b","sequence_number":%%d,%b,"delta":%%b%b}\n\n'
    return _Text(state, address, channel, template % (event_type, event_type, fields, logprobs), state.append)
