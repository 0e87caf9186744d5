"""Encodes events as the stream of the Chat Completions API. Does not collect the chunks.

The frames of one text differ in the escaped text only, so the bytes around it are built once per text.
"""

from collections.abc import Sequence
from typing import TypeAlias, assert_never

import orjson

from translation.chat import reply_objects
from translation.chat.client.chunk_recorder import ChunkRecorder, place_citation
from translation.chat.reasoning import DETAILS_FIELD
from translation.encoding.event_encoder import StreamEnd
from translation.framing import sse
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
    Usage,
)
from translation.representation.json_types import Json

_PartKey: TypeAlias = tuple[int, int | None]
"""The index of an item, and of a part of it; None for the text of the item itself, such as arguments."""


class _SentText:
    """A text that is being sent: its frame template, None until that is built, and how much of it was sent.

    The template of a text that chat has no field for is empty, so that its deltas give no bytes.
    """

    __slots__ = ("field", "length", "template")

    def __init__(self, field: reply_objects.ReplyField | None) -> None:
        self.field = field
        self.template: tuple[bytes, ...] | None = None
        self.length = 0


_TEXT_PLACEHOLDER = "\x00"
"""Marks where the text goes while the frame template of a text is built."""


class ChunkBuilder:
    """Builds the frames of the chunks of one completion. `identity` are the members that all of them have."""

    def __init__(self, identity: Json, *, include_usage: bool) -> None:
        self._identity = identity
        self._include_usage = include_usage

    def add_facts(self, facts: Json) -> bool:
        """Adds members to all further chunks. Returns whether those were not known."""
        if facts.items() <= self._identity.items():
            return False
        self._identity |= facts
        return True

    def build_chunk(
        self, delta: Json, *, logprobs: Json | None = None, ending: Json | None = None, **more: Json
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, **(ending or {"finish_reason": None})}
        usage = {"usage": None} if self._include_usage else {}
        return sse.encode_data(orjson.dumps({**self._identity, "choices": [choice], **usage, **more}))

    def build_usage_chunk(self, usage: Usage | None) -> bytes:
        """Returns the chunk with nothing but usage; empty bytes if there is none or the client does not want it."""
        counts = reply_objects.build_usage(usage)
        if counts is None or not self._include_usage:
            return b""
        return sse.encode_data(orjson.dumps({**self._identity, "choices": [], "usage": counts}))

    def build_template(self, delta: Json) -> tuple[bytes, ...]:
        """Returns the frame of a delta, split at its placeholders. Joined with an escaped text it is a whole frame."""
        first, *middle, last = orjson.dumps(delta).split(orjson.dumps(_TEXT_PLACEHOLDER))
        head = b'data: %s,"choices":[{"index":0,"delta":' % orjson.dumps(self._identity)[:-1]
        tail = b',"logprobs":null,"finish_reason":null}]%s}\n\n' % (b',"usage":null' if self._include_usage else b"")
        return (head + first, *middle, last + tail)


class CallFields:
    """The field of a delta in which each call of a completion is sent.

    The legacy `function_call` holds one call. Further calls are sent in `tool_calls`, so that they are not lost.
    """

    def __init__(self, *, legacy_functions: bool) -> None:
        self.legacy_functions = legacy_functions
        self._legacy_call: int | None = None
        self._numbers: dict[int, int] = {}

    @property
    def has_calls(self) -> bool:
        return self._legacy_call is not None or bool(self._numbers)

    def add_call(self, index: int, *, is_function: bool) -> None:
        """Adds the call that is the item with this index."""
        if self.legacy_functions and is_function and not self.has_calls:
            self._legacy_call = index
        else:
            self._numbers[index] = len(self._numbers)

    def build_delta(self, index: int, call: Json) -> Json:
        if index == self._legacy_call:
            return {"function_call": call["function"]}
        return {"tool_calls": [{"index": self._numbers[index], **call}]}


class ChatEncoder(StreamEnd):
    """Encodes one stream of `chat.completion.chunk` frames, from the role to `[DONE]`.

    The batches must satisfy the event grammar. No frame is returned before there is content: until then the reply may
    still become an HTTP error with its own status. If calls are faulty, the chunk that ends the turn has
    `tool_warnings`. With `extensions` it has the `extensions` of `ChunkRecorder`.
    """

    def __init__(
        self,
        *,
        completion_id: str,
        created: int,
        model: str,
        reasoning_fields: frozenset[str],
        include_usage: bool,
        extensions: bool = False,
        legacy_functions: bool = False,
    ) -> None:
        super().__init__()
        self.usage: Usage | None = None
        """The latest token counts that the upstream reported."""
        self.response: Json | None = None
        """Always None: this encoder does not add up the chunks. A stored completion is built from the sent frames."""
        identity = {"id": completion_id, "object": "chat.completion.chunk", "created": created, "model": model}
        self._chunks = ChunkBuilder(identity, include_usage=include_usage)
        self._reasoning_fields = sorted(reasoning_fields)
        self._chunk_recorder = ChunkRecorder() if extensions else None
        self._role_written = False
        self._has_reasoning = False
        self._image_count = 0
        self._item_types: list[str] = []
        self._warnings: Json = {}
        self._calls = CallFields(legacy_functions=legacy_functions)
        self._part_types: dict[_PartKey, str | None] = {}
        self._written_parts: set[_PartKey] = set()
        self._texts: dict[_PartKey, _SentText] = {}
        """In the order in which they began."""

    def feed(self, batch: Sequence[Event]) -> bytes:
        """Returns the whole frames of one batch; empty bytes if chat can represent nothing of it."""
        if self._chunk_recorder is not None:
            self._chunk_recorder.feed(batch)
        frames: list[bytes] = []
        texts = self._texts
        for event in batch:
            match event:
                case Delta():
                    text = texts.get((event.index, event.part_index))
                    if text is None or text.template is None or event.logprobs:
                        self._write_text(event, frames)
                    else:
                        text.length += len(event.text)
                        frames.append(orjson.dumps(event.text).join(text.template))
                case ItemStarted():
                    self._start_item(event, frames)
                case PartStarted():
                    self._part_types[event.index, event.part_index] = event.part.get("type", "")
                case ItemEnded():
                    self._end_item(event, frames)
                case Annotated():
                    self._write_citation(event, frames)
                case Noted():
                    self.usage = event.usage or self.usage
                    self._warnings |= reply_objects.build_warnings(event.facts or {})
                    if self._chunks.add_facts(reply_objects.build_facts(event.facts or {})):
                        for text in texts.values():
                            text.template = None
                case Finished():
                    self._finish(event, frames)
                case Failed():
                    self._fail(event)
                case Started() | PartEnded() | Progressed() | Opaque():
                    pass  # chat has no chunk for these
                case _:
                    assert_never(event)
        return b"".join(frames)

    def build_delta_template(self, _run: DeltaRun, _observers: Sequence[TextObserver]) -> None:
        """Returns None: this encoder has no delta template, so every delta has to be fed."""
        return

    def _start_item(self, event: ItemStarted, frames: list[bytes]) -> None:
        item = event.item
        self._item_types.append(item["type"])
        field = reply_objects.REPLY_FIELDS.get((item["type"], None))
        if field is None:
            return
        self._calls.add_call(event.index, is_function=field == "arguments")
        text = item.get(field) or ""
        if text:
            self._written_parts.add((event.index, None))
        self._write_delta(self._calls.build_delta(event.index, reply_objects.build_call(item, text)), frames)

    def _end_item(self, event: ItemEnded, frames: list[bytes]) -> None:
        if event.item is None:
            return
        if (image := reply_objects.build_image_entry(event.item)) is not None:
            self._write_delta({"images": [{**image, "index": self._image_count}]}, frames)
            self._image_count += 1
        if not any(index == event.index for index, _ in self._written_parts):
            for part_index, part_type, text in reply_objects.iter_texts(event.item):
                self._part_types[event.index, part_index] = part_type
                self._write_text(Delta(event.index, part_index, text), frames)
        if self._reasoning_fields and event.item.get("details"):
            self._write_delta({DETAILS_FIELD: event.item["details"]}, frames)

    def _write_citation(self, event: Annotated, frames: list[bytes]) -> None:
        """Writes a citation with its positions in the whole answer, to which clients join the texts of all messages."""
        start = 0
        for key, text in self._texts.items():
            if key == (event.index, event.part_index):
                break
            if text.field == "content":
                start += text.length
        if (citation := place_citation(event.annotation, start, self._chunk_recorder)) is not None:
            self._write_delta({"annotations": [citation]}, frames)

    def _write_text(self, event: Delta, frames: list[bytes]) -> None:
        """Writes a delta without a frame template: the first of its text, or one with log probabilities.

        It also builds the template for the deltas that follow.
        """
        key = (event.index, event.part_index)
        part_type = None if event.part_index is None else self._part_types[key]
        field = reply_objects.REPLY_FIELDS.get((self._item_types[event.index], part_type))
        if (sent := self._texts.get(key)) is None:
            sent = self._texts[key] = _SentText(field)
        if field is None or (field == "reasoning" and not self._reasoning_fields):
            sent.template = ()
            return
        text = event.text
        sent.length += len(text)
        if field == "reasoning":
            if (
                key not in self._written_parts
                and self._has_reasoning
                and reply_objects.is_own_paragraph(key, part_type)
            ):
                text = reply_objects.PARAGRAPH_GAP + text
            self._has_reasoning = True
        self._written_parts.add(key)
        self._write_role(frames, "" if field == "content" else None)
        if event.logprobs and field in ("content", "refusal"):
            logprobs: Json = {"content": None, "refusal": None, field: event.logprobs}
            frames.append(self._chunks.build_chunk({field: text}, logprobs=logprobs))
            return
        sent.template = self._chunks.build_template(self._placeholder_delta(field, event.index))
        frames.append(orjson.dumps(text).join(sent.template))

    def _placeholder_delta(self, field: reply_objects.ReplyField, index: int) -> Json:
        """Returns the `delta` object of a chunk for one field, with a placeholder for the text."""
        match field:
            case "content" | "refusal":
                return {field: _TEXT_PLACEHOLDER}
            case "reasoning":
                return dict.fromkeys(self._reasoning_fields, _TEXT_PLACEHOLDER)
            case "arguments":
                return self._calls.build_delta(index, {"function": {"arguments": _TEXT_PLACEHOLDER}})
            case "input":
                return self._calls.build_delta(index, {"custom": {"input": _TEXT_PLACEHOLDER}})
            case _:
                assert_never(field)

    def _write_role(self, frames: list[bytes], content: str | None) -> None:
        if not self._role_written:
            self._role_written = True
            frames.append(self._chunks.build_chunk({"role": "assistant", "content": content}))

    def _write_delta(self, delta: Json, frames: list[bytes]) -> None:
        self._write_role(frames, None)
        frames.append(self._chunks.build_chunk(delta))

    def _finish(self, event: Finished, frames: list[bytes]) -> None:
        self.usage = event.usage or self.usage
        self._write_role(frames, "")
        ending = reply_objects.build_finish(event, called=self._calls.has_calls, legacy=self._calls.legacy_functions)
        extensions = {} if self._chunk_recorder is None else {"extensions": self._chunk_recorder.build_extensions()}
        end = self._chunks.build_chunk({}, ending=ending, **self._warnings, **extensions)
        self._end(end + self._chunks.build_usage_chunk(self.usage))

    def _fail(self, event: Failed) -> None:
        self.failed = event
        self.usage = event.usage or self.usage
        end = self._chunks.build_chunk(
            {}, ending={"finish_reason": "error"}, error=reply_objects.build_error(event), **self._warnings
        )
        self._end(end)

    def _end(self, end: bytes) -> None:
        self.ended = True
        self.closing_frames = end + sse.DONE_FRAME
