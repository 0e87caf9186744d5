"""Encodes events as the stream of the Messages API. Does not collect the message.

https://platform.claude.com/docs/en/build-with-claude/streaming
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson

from translation.framing import sse
from translation.messages import reply_objects
from translation.messages.block_deltas import split_block
from translation.messages.failures import build_error_body
from translation.messages.item_blocks import ItemBlocks
from translation.messages.reply_objects import BLANK_LINE, ThinkingView
from translation.messages.text_template import TextTemplate
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
from translation.representation.item_seal import ItemSeal
from translation.representation.json_types import Item, Json

PING_FRAME: Final = sse.encode_event("ping", b'{"type":"ping"}')
"""Keeps a stream alive. It may come anywhere, also before the message."""


class MessagesEncoder:
    """Encodes one message, from `message_start` to `message_stop`. The batches must satisfy the event grammar.

    `thinking` is what the client gets of reasoning items, and `seal` seals what it has to send back of items.
    """

    def __init__(self, *, message_id: str, model: str, thinking: ThinkingView, seal: ItemSeal | None = None) -> None:
        self.ended = False
        """Whether the message is over. Then `conclude` returns its last frames."""
        self.failed: Failed | None = None
        """The failure that ended it, if there is one."""
        self.response: Json | None = None
        """Always None: messages are not stored."""
        self._message_id = message_id
        self._model = model
        self._thinking = thinking
        self._seal = seal
        self._usage: Usage | None = None
        self._facts: Json = {}
        self._has_head = False
        self._is_concluded = False
        self._block_count = 0
        self._has_calls = False
        self._is_refusal = False
        self._finished: Finished | None = None
        self._items: dict[int, ItemBlocks] = {}
        self._templates: dict[tuple[int, int | None], bytes] = {}

    def feed(self, batch: Sequence[Event]) -> bytes:
        """Returns the whole frames of one batch; empty bytes if the API has nothing for it."""
        frames: list[bytes] = []
        templates = self._templates
        for event in batch:
            if type(event) is not Delta:
                _EVENT_WRITERS[type(event)](self, event, frames)
                continue
            template = templates.get((event.index, event.part_index))
            if template is None:
                self._write_text(event.index, event.part_index, event.text, frames)
            else:
                self._items[event.index].state.add_delta(event)
                frames.append(template % orjson.dumps(event.text))
        return frames[0] if len(frames) == 1 else b"".join(frames)

    def conclude(self) -> bytes:
        """Returns the last frames, once, after `ended`. A second call returns empty bytes.

        Until then a `Failed` may still be fed. It replaces the end.
        """
        if not self.ended or self._is_concluded:
            return b""
        self._is_concluded = True
        if self.failed is not None:
            return _encode(build_error_body(self.failed.message, code=self.failed.code), "error")
        assert self._finished is not None
        frames: list[bytes] = []
        self._write_head(frames)
        stop = reply_objects.build_stop(
            self._finished, called=self._has_calls, refused=self._is_refusal, facts=self._facts
        )
        usage = reply_objects.build_message_usage(self._usage, {})
        frames.append(_encode({"type": "message_delta", "delta": stop, "usage": usage}))
        frames.append(_encode({"type": "message_stop"}))
        return b"".join(frames)

    def delta_template(self, run: DeltaRun, observers: Sequence[TextObserver] = ()) -> TextTemplate | None:
        """Returns the template that forwards reads of the run; None if their text is not sent in deltas."""
        index, part_index = run.text_key
        template = self._templates.get(run.text_key)
        if template is None or index not in self._items:
            return None
        return TextTemplate(run, self._items[index].state.part_at(part_index).append, template, observers)

    def _write_head(self, frames: list[bytes]) -> None:
        """Writes the beginning of the message, once. It waits for the first block, since it has the usage."""
        if not self._has_head:
            self._has_head = True
            usage = reply_objects.build_message_usage(self._usage, self._facts)
            head = reply_objects.build_head(self._message_id, self._model, usage)
            frames.append(_encode({"type": "message_start", "message": head}))

    def _start_block(self, block: Json, frames: list[bytes]) -> int:
        """Writes the beginning of a block, and returns its index."""
        self._write_head(frames)
        index = self._block_count
        self._block_count += 1
        frames.append(_encode({"type": "content_block_start", "index": index, "content_block": block}))
        return index

    def _start_item(self, event: ItemStarted, frames: list[bytes]) -> None:
        item = event.item
        entry = self._items[event.index] = ItemBlocks(item)
        if item["type"] == "function_call":
            self._has_calls = True
            block = {"type": "tool_use", "id": item["call_id"], "name": item["name"], "input": {}}
            entry.blocks[None] = self._start_block(block, frames)
            if item.get("arguments"):
                self._write_text(event.index, None, item["arguments"], frames, is_initial=True)

    def _start_part(self, event: PartStarted, frames: list[bytes]) -> None:
        entry = self._items[event.index]
        entry.state.start_part(event.part)
        if text := reply_objects.text_of(entry.state.type, event.part):
            self._write_text(event.index, event.part_index, text, frames, is_initial=True)

    def _write_text(
        self, index: int, part_index: int | None, text: str, frames: list[bytes], *, is_initial: bool = False
    ) -> None:
        """Writes a text without a template: the first of its block. It builds the template for those that follow.

        An `is_initial` text is in the object that was started already.
        """
        entry = self._items[index]
        if not is_initial:
            entry.state.add_delta(Delta(index, part_index, text))
        kind = entry.state.type
        if not text or kind not in _TEXT_DELTAS or (kind == "reasoning" and self._thinking != "text"):
            return
        delta_type, key, start = _TEXT_DELTAS[kind]
        block_key = None if kind == "reasoning" else part_index  # the parts of a reasoning item are one block
        if block_key not in entry.blocks:
            entry.blocks[block_key] = self._start_block(start, frames)
        elif kind == "reasoning":
            text = BLANK_LINE + text
        frame = _encode(
            {
                "type": "content_block_delta",
                "index": entry.blocks[block_key],
                "delta": {"type": delta_type, key: ""},
            }
        )
        template = self._templates[index, part_index] = frame.replace(b"%", b"%%").replace(b'""', b"%b")
        frames.append(template % orjson.dumps(text))

    def _end_part(self, event: PartEnded, frames: list[bytes]) -> None:
        entry = self._items[event.index]
        part = entry.state.end_part(event.part_index, event.part)
        if event.part_index is None or entry.state.type != "message":
            return
        if event.part_index not in entry.blocks:
            self._write_missing(event.index, event.part_index, part, frames)
        self._is_refusal = self._is_refusal or part.get("type") == "refusal"
        self._stop_block(entry, event.part_index, frames)

    def _write_missing(self, index: int, part_index: int, part: Json, frames: list[bytes]) -> None:
        """Writes the text of a part that had no deltas."""
        entry = self._items[index]
        if text := reply_objects.text_of(entry.state.type, part):
            self._write_text(index, part_index, text, frames, is_initial=True)

    def _stop_block(self, entry: ItemBlocks, key: int | None, frames: list[bytes]) -> None:
        """Writes the end of a block, if it is open."""
        if (index := entry.blocks.get(key)) is not None and key not in entry.stopped:
            entry.stopped.add(key)
            frames.append(_encode({"type": "content_block_stop", "index": index}))

    def _write_deltas(self, index: int, deltas: Sequence[Json], frames: list[bytes]) -> None:
        frames += [_encode({"type": "content_block_delta", "index": index, "delta": delta}) for delta in deltas]

    def _annotate(self, event: Annotated, frames: list[bytes]) -> None:
        entry = self._items[event.index]
        text = entry.state.part_at(event.part_index).text
        citation = reply_objects.cite_url(event.annotation, text)
        if citation is not None and event.part_index in entry.blocks:
            delta = {"type": "citations_delta", "citation": citation}
            self._write_deltas(entry.blocks[event.part_index], [delta], frames)

    def _end_item(self, event: ItemEnded, frames: list[bytes]) -> None:
        entry = self._items[event.index]
        item = entry.state.end(event.item, event.status)
        match item["type"]:
            case "function_call":
                self._end_call(event.index, entry, item, frames)
            case "reasoning" if entry.blocks:
                if signature := reply_objects.seal_item(item, self._seal):
                    delta = {"type": "signature_delta", "signature": signature}
                    self._write_deltas(entry.blocks[None], [delta], frames)
                self._stop_block(entry, None, frames)
            case "message" if entry.blocks:
                for key in entry.blocks:
                    self._stop_block(entry, key, frames)
            case _:
                for block in reply_objects.build_blocks(item, self._thinking, self._seal):
                    self._write_whole_block(block, frames)
        del self._items[event.index]

    def _end_call(self, index: int, entry: ItemBlocks, item: Item, frames: list[bytes]) -> None:
        if (index, None) not in self._templates and item.get("arguments"):
            self._write_text(index, None, item["arguments"], frames, is_initial=True)
        self._stop_block(entry, None, frames)
        for block in reply_objects.build_call_carrier(item, self._seal):
            self._write_whole_block(block, frames)

    def _write_whole_block(self, block: Json, frames: list[bytes]) -> None:
        start, deltas = split_block(block)
        index = self._start_block(start, frames)
        self._write_deltas(index, deltas, frames)
        frames.append(_encode({"type": "content_block_stop", "index": index}))

    def _note(self, event: Noted, _frames: list[bytes]) -> None:
        self._usage = event.usage or self._usage
        self._facts |= event.facts or {}

    def _finish(self, event: Finished, _frames: list[bytes]) -> None:
        self._usage = event.usage or self._usage
        self._finished = event
        self.ended = True

    def _fail(self, event: Failed, _frames: list[bytes]) -> None:
        self.failed = event
        self.ended = True

    def _skip(self, _event: Event, _frames: list[bytes]) -> None:
        """Writes nothing: the API has no event for it."""


_TEXT_DELTAS: Final[Mapping[str, tuple[str, str, Json]]] = {
    "message": ("text_delta", "text", {"type": "text", "text": ""}),
    "reasoning": ("thinking_delta", "thinking", {"type": "thinking", "thinking": "", "signature": ""}),
    "function_call": ("input_json_delta", "partial_json", {}),
}
"""Type of an item -> (type of the delta for its text, the key of the text, the block as it starts). The block of a call
starts with the item."""


def _encode(event: Json, name: str | None = None) -> bytes:
    return sse.encode_event(name or event["type"], orjson.dumps(event))


_EVENT_WRITERS: Final[dict[type[Event], Callable[[MessagesEncoder, Any, list[bytes]], None]]] = {
    Started: MessagesEncoder._skip,
    ItemStarted: MessagesEncoder._start_item,
    PartStarted: MessagesEncoder._start_part,
    PartEnded: MessagesEncoder._end_part,
    ItemEnded: MessagesEncoder._end_item,
    Annotated: MessagesEncoder._annotate,
    Progressed: MessagesEncoder._skip,
    Noted: MessagesEncoder._note,
    Opaque: MessagesEncoder._skip,
    Finished: MessagesEncoder._finish,
    Failed: MessagesEncoder._fail,
}
"""Type of event -> what writes it."""
