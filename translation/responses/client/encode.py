"""Encodes events as the stream of the Responses API: whole frames, in the API's order, numbered without gaps."""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NamedTuple

import orjson

from translation.encoding.event_encoder import StreamEnd
from translation.encoding.templates import DeltaTemplate
from translation.framing import sse
from translation.representation.collector import PartState
from translation.representation.delta_runs import DeltaRun, TextObserver
from translation.representation.events import (
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
from translation.representation.item_seal import ItemSeal
from translation.representation.items import TEXT_FIELDS, TextField
from translation.representation.json_types import Json
from translation.representation.shared_tools import write_json
from translation.responses.client.item_view import show_item, show_response
from translation.responses.client.snapshot import Snapshot

_OUTPUT_TEXT = "response.output_text"
"""The only channel whose events must have `logprobs`, empty or not."""

_FUNCTION_ARGUMENTS = "response.function_call_arguments"
"""The only channel whose `done` event repeats the name of the call."""

_DONE_EXTRAS = {_OUTPUT_TEXT: b',"logprobs":%b', _FUNCTION_ARGUMENTS: b',"name":%b'}
"""Channel -> the format of the further fields of its `done` event."""

_EMPTY_LOGPROBS_END = b"[]}\n\n"
"""The end of a text delta whose `logprobs` are empty."""


def _frame_format(event_type: str, fields: bytes) -> bytes:
    """Returns a `%`-format of a frame, for its sequence number and the values of `fields`.

    `fields` is a format of the rest of the frame's JSON. Filling it in costs a third of building and dumping a dict.
    """
    name = event_type.encode()
    return b'event: %b\ndata: {"type":"%b","sequence_number":%%d,%b}\n\n' % (name, name, fields)


_LIFECYCLE_FRAMES = {
    status: _frame_format(f"response.{status}", b'"response":%b')
    for status in ("created", "in_progress", "completed", "incomplete", "failed")
}
_CREATED, _IN_PROGRESS = _LIFECYCLE_FRAMES["created"], _LIFECYCLE_FRAMES["in_progress"]
_ITEM_ADDED = _frame_format("response.output_item.added", b'"output_index":%d,"item":%b')
_ITEM_DONE = _frame_format("response.output_item.done", b'"output_index":%d,"item":%b')
_ANNOTATION_ADDED = _frame_format("response.output_text.annotation.added", b'%b,"annotation_index":%d,"annotation":%b')


class _PartFrames(NamedTuple):
    """Formats of the frames around a part, for the part's address and the part.

    `index_key` is the key of the part's position in the item.
    """

    added: bytes
    done: bytes
    index_key: bytes

    @classmethod
    def for_name(cls, name: str, index_key: bytes) -> "_PartFrames":
        return cls(
            _frame_format(f"{name}.added", b'%b,"part":%b'), _frame_format(f"{name}.done", b'%b,"part":%b'), index_key
        )


_CONTENT_FRAMES = _PartFrames.for_name("response.content_part", b"content_index")
_SUMMARY_FRAMES = _PartFrames.for_name("response.reasoning_summary_part", b"summary_index")


class _ChannelFrames(NamedTuple):
    """Formats of the frames of a text.

    `delta` is the format of a delta frame, cut where the address goes: with the address between its two pieces it is a
    format for the sequence number and the text. `done` is a format for the sequence number, the address, the whole
    text, and the further fields. `key` is the key of the text in the part or item.
    """

    name: str
    key: str
    delta: tuple[bytes, ...]
    done: bytes

    @classmethod
    def from_channel(cls, channel: TextField) -> "_ChannelFrames":
        name, key = channel
        logprobs = b',"logprobs":[]' if name == _OUTPUT_TEXT else b""
        delta = _frame_format(f"{name}.delta", b'%%b,"delta":%%b%b' % logprobs)
        done = _frame_format(f"{name}.done", b'%%b,"%b":%%b%b' % (key.encode(), _DONE_EXTRAS.get(name, b"%b")))
        return cls(name, key, tuple(delta.split(b"%b", 1)), done)


_CHANNEL_FRAMES = {types: _ChannelFrames.from_channel(channel) for types, channel in TEXT_FIELDS.items()}


class _TextStream:
    """One text of the stream: its address, its state in the snapshot, and the format of its delta frames."""

    __slots__ = ("address", "append", "channel", "is_open", "state", "template")

    def __init__(self, state: PartState, address: bytes, channel: _ChannelFrames | None) -> None:
        self.state = state
        self.address = address
        """The JSON fields that identify the text in each of its events."""
        self.channel = channel
        self.template = b"" if channel is None else address.replace(b"%", b"%%").join(channel.delta)
        """A `%`-format for the sequence number and the text as JSON. Empty if the text is not sent in deltas."""
        self.append = state.append
        """Appends a piece to the text. It is looked up once, because it is called for every delta."""
        self.is_open = True


def _null_text() -> _TextStream:
    """Returns the frames for items without a text of their own, as most items are. Appended texts are ignored."""
    text = _TextStream(PartState({}, None), b"", None)
    text.append, text.is_open = deque[str](maxlen=0).append, False
    return text


_NULL_TEXT: Final = _null_text()


class ResponsesEncoder(StreamEnd):
    """Takes batches of events, and returns whole frames with LF line ends. `conclude` returns the terminal event.

    `initial_response` is the object from `new_response`. `clock` returns the time in epoch seconds. `seal` seals the
    items before they are sent. `included` is the request's `include`: other parts of items are not sent, but they are
    in `response`. The batches must satisfy the event grammar.
    """

    def __init__(
        self,
        initial_response: Json,
        clock: Callable[[], int],
        seal: ItemSeal | None = None,
        included: Collection[str] = (),
    ) -> None:
        super().__init__()
        self._included = included
        self._snapshot = Snapshot(initial_response, clock, seal)
        self.sequence = -1
        """The sequence number of the last event; -1 before the first."""
        self._texts: dict[tuple[int, int | None], _TextStream] = {}
        self._addresses: list[bytes] = []
        """For each item, the JSON fields that identify it in each of its events."""

    @property
    def response(self) -> Json:
        """The response object in its current state. Once `ended` is True it is the object of the terminal event."""
        return self._snapshot.response

    def restore(self, events: Sequence[Event], last_sequence_number: int) -> None:
        """Continues a stream that another encoder began: it has sent these events, the last with this number.

        The items in them are in the form that was sent, so they are not sealed again.
        """
        snapshot = self._snapshot
        seal, snapshot.seal = snapshot.seal, None
        self.feed(events)
        snapshot.seal = seal
        self.sequence = last_sequence_number

    def feed(self, batch: Sequence[Event]) -> bytes:
        """Takes one batch. Returns its frames, possibly none."""
        frames: list[bytes] = []
        texts = self._texts
        for event in batch:
            if type(event) is not Delta:
                _EVENT_WRITERS[type(event)](self, event, frames)
                continue
            # Nine events in ten are deltas. They change nothing but their own text.
            text = texts[event.index, event.part_index]
            piece = event.text
            text.append(piece)
            if text.channel is None:
                continue
            if event.logprobs:
                frames.append(self._delta_with_logprobs(text, piece, event.logprobs))
            else:
                self.sequence += 1
                frames.append(text.template % (self.sequence, orjson.dumps(piece)))
        return frames[0] if len(frames) == 1 else b"".join(frames)

    def build_delta_template(self, run: DeltaRun, observers: Sequence[TextObserver] = ()) -> DeltaTemplate | None:
        """Returns the template that forwards reads of the run; None if their text is not sent in deltas."""
        text = self._texts[run.text_key]
        return None if text.channel is None else DeltaTemplate(run, text.append, text.template, observers, self)

    def _build_closing_frames(self) -> bytes:
        self.sequence += 1
        response = show_response(self._snapshot.response, self._included)
        return _LIFECYCLE_FRAMES[response["status"]] % (self.sequence, write_json(response)) + sse.DONE_FRAME

    def _delta_with_logprobs(self, text: _TextStream, piece: str, logprobs: list[Json]) -> bytes:
        text.state.add_logprobs(logprobs)
        frame = self._delta_frame(text, piece)
        if frame.endswith(_EMPTY_LOGPROBS_END):
            return b"%b%b}\n\n" % (frame.removesuffix(_EMPTY_LOGPROBS_END), orjson.dumps(logprobs))
        return frame

    def _delta_frame(self, text: _TextStream, piece: str) -> bytes:
        self.sequence += 1
        return text.template % (self.sequence, orjson.dumps(piece))

    def _foreign_frame(self, event_type: str, fields: Json) -> bytes:
        """Returns a frame whose type comes from an upstream, so that the type is escaped as JSON."""
        self.sequence += 1
        return sse.encode_event(
            event_type, orjson.dumps({"type": event_type, "sequence_number": self.sequence} | fields)
        )

    def _start(self, event: Started, frames: list[bytes]) -> None:
        self._snapshot.start(event)
        response = write_json(self._snapshot.response)
        self.sequence += 2
        frames.append(_CREATED % (self.sequence - 1, response))
        frames.append(_IN_PROGRESS % (self.sequence, response))

    def _finish(self, event: Finished, _frames: list[bytes]) -> None:
        self._snapshot.finish(event)
        self.ended = True

    def _fail(self, event: Failed, frames: list[bytes]) -> None:
        if self.sequence < 0:
            # A turn may fail before it starts. Clients expect `response.created` before the terminal event.
            self._start(Started(""), frames)
        self._snapshot.fail(event)
        self.failed = event
        self.ended = True

    def _start_item(self, event: ItemStarted, frames: list[bytes]) -> None:
        index = event.index
        state = self._snapshot.start_item(event)
        item = state.start
        address = b'"item_id":%b,"output_index":%d' % (orjson.dumps(item["id"]), index)
        self._addresses.append(address)
        self.sequence += 1
        channel = _CHANNEL_FRAMES.get((state.type, None))
        if channel is None:
            self._texts[index, None] = _NULL_TEXT
            frames.append(_ITEM_ADDED % (self.sequence, index, orjson.dumps(item)))
            return
        text = self._texts[index, None] = _TextStream(state.own_text, address, channel)
        frames.append(_ITEM_ADDED % (self.sequence, index, orjson.dumps(_without_text(item, channel))))
        self._write_missing_text(text, "", item, frames)

    def _start_part(self, event: PartStarted, frames: list[bytes]) -> None:
        item, part = self._snapshot.start_part(event), event.part
        kind, parts = _frames_of(part), item.parts
        position = sum(_frames_of(other.start) is kind for other in parts[:-1]) if len(parts) > 1 else 0
        channel = _CHANNEL_FRAMES.get((item.type, part.get("type")))
        address = b'%b,"%b":%d' % (self._addresses[event.index], kind.index_key, position)
        text = self._texts[event.index, event.part_index] = _TextStream(parts[-1], address, channel)
        self.sequence += 1
        added_part = _without_text(part, channel)
        frames.append(kind.added % (self.sequence, address, orjson.dumps(added_part)))
        if added_part is not part:
            self._write_missing_text(text, "", part, frames)

    def _end_part(self, event: PartEnded, frames: list[bytes]) -> None:
        text = self._texts[event.index, event.part_index]
        if event.part_index is not None:
            part = text.state.end(event.part)
            self._end_text(text, part, frames)
            self.sequence += 1
            frames.append(_frames_of(text.state.start).done % (self.sequence, text.address, orjson.dumps(part)))
            return
        item = self._snapshot.end_part(event)
        # Empty arguments may still become "{}", depending on how the item ends.
        if item["type"] != "function_call" or item.get("arguments"):
            self._end_text(text, item, frames)

    def _end_item(self, event: ItemEnded, frames: list[bytes]) -> None:
        text = self._texts[event.index, None]
        item = self._snapshot.end_item(event)
        if text.is_open:
            self._end_text(text, item, frames)
        self.sequence += 1
        frames.append(_ITEM_DONE % (self.sequence, event.index, orjson.dumps(show_item(item, self._included))))

    def _end_text(self, text: _TextStream, whole: Json, frames: list[bytes]) -> None:
        """Writes the `done` event of a text.

        `done` only repeats the text, so text that was not sent yet goes into a delta before it.
        """
        text.is_open = False
        channel = text.channel
        if channel is None or not isinstance(whole_text := whole.get(channel.key), str):
            return
        sent_text = text.state.text
        if sent_text != whole_text:
            self._write_missing_text(text, sent_text, whole, frames)
        self.sequence += 1
        further_fields = b""
        if channel.name == _OUTPUT_TEXT:
            further_fields = orjson.dumps(logprobs) if (logprobs := whole.get("logprobs")) else b"[]"
        elif channel.name == _FUNCTION_ARGUMENTS:
            further_fields = orjson.dumps(whole.get("name"))
        frames.append(channel.done % (self.sequence, text.address, orjson.dumps(whole_text), further_fields))

    def _write_missing_text(self, text: _TextStream, sent_text: str, whole: Json, frames: list[bytes]) -> None:
        """Writes a delta with the text of `whole` beyond `sent_text`, if there is any."""
        whole_text = (text.channel and whole.get(text.channel.key)) or ""
        if len(whole_text) > len(sent_text) and whole_text.startswith(sent_text):
            frames.append(self._delta_frame(text, whole_text[len(sent_text) :]))

    def _annotate(self, event: Annotated, frames: list[bytes]) -> None:
        text = self._texts[event.index, event.part_index]
        position = self._snapshot.annotate(event)
        self.sequence += 1
        frames.append(_ANNOTATION_ADDED % (self.sequence, text.address, position, orjson.dumps(event.annotation)))

    def _progress(self, event: Progressed, frames: list[bytes]) -> None:
        item_type = self._snapshot.items[event.index].type
        fields = {**self._address_of(event.index), **(event.extra or {})}
        frames.append(self._foreign_frame(f"response.{item_type}.{event.phase}", fields))

    def _forward_opaque(self, event: Opaque, frames: list[bytes]) -> None:
        # No event may come before response.created, so earlier events of the upstream are dropped.
        if event.dialect != "responses" or self.sequence < 0:
            return
        fields = {key: value for key, value in event.payload.items() if key != "sequence_number"}
        if event.index is not None:
            address = self._address_of(event.index)
            fields |= {key: value for key, value in address.items() if key in fields}
        frames.append(self._foreign_frame(fields["type"], fields))

    def _note(self, event: Noted, _frames: list[bytes]) -> None:
        self._snapshot.note(event)  # the terminal event carries it

    def _address_of(self, index: int) -> Json:
        return {"item_id": self._snapshot.items[index].start["id"], "output_index": index}


def _frames_of(part: Json) -> _PartFrames:
    return _SUMMARY_FRAMES if part.get("type") == "summary_text" else _CONTENT_FRAMES


def _without_text(whole: Json, channel: _ChannelFrames | None) -> Json:
    """Returns a part or item with an empty text, for its `added` event.

    The text is sent in deltas instead, because some clients read nothing but deltas, and add them up.
    """
    return {**whole, channel.key: ""} if channel is not None and whole.get(channel.key) else whole


_EVENT_WRITERS: Final[dict[type[Event], Callable[[ResponsesEncoder, Any, list[bytes]], None]]] = {
    Started: ResponsesEncoder._start,
    ItemStarted: ResponsesEncoder._start_item,
    PartStarted: ResponsesEncoder._start_part,
    PartEnded: ResponsesEncoder._end_part,
    ItemEnded: ResponsesEncoder._end_item,
    Annotated: ResponsesEncoder._annotate,
    Progressed: ResponsesEncoder._progress,
    Noted: ResponsesEncoder._note,
    Opaque: ResponsesEncoder._forward_opaque,
    Finished: ResponsesEncoder._finish,
    Failed: ResponsesEncoder._fail,
}
"""Type of event -> the method that writes it. A lookup is faster than `match`, which tests class after class.

`feed` writes deltas itself.
"""
