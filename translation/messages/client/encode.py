"""Encodes events as the stream of the Messages API. Does not collect the message.

https://platform.claude.com/docs/en/build-with-claude/streaming
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import orjson

from translation.encoding.event_encoder import EventEncoder, TextFrames
from translation.encoding.templates import DeltaTemplate
from translation.errors import ProtocolViolation
from translation.framing import sse
from translation.messages.client import reply_objects
from translation.messages.client.mcp_servers import build_mcp_result, build_mcp_use
from translation.messages.client.messages_errors import build_error_body
from translation.messages.client.reply_objects import BLANK_LINE, ThinkingView, split_block
from translation.messages.client.searches import build_search_usage, build_search_use
from translation.representation.collector import ItemState
from translation.representation.delta_runs import DeltaRun, TextKey, TextObserver
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    PartEnded,
    PartStarted,
)
from translation.representation.item_seal import ItemSeal, seal_item
from translation.representation.items import text_of
from translation.representation.json_types import Item, Json
from translation.tools.arguments import RAW_ARGUMENTS_KEY, is_object
from translation.tools.searches import SEARCH_ITEM, is_counted

PING_FRAME: Final = sse.encode_event("ping", b'{"type":"ping"}')
"""Keeps a stream alive. It may be sent at any time, even before the message."""


_BlockEvent: TypeAlias = ItemStarted | PartStarted | Delta | Annotated | PartEnded | ItemEnded
"""The events about the contents of blocks, and about their start and end."""


class _ItemBlocks:
    """An item that has begun, with the indexes of its blocks: by part, or under None if the item is one block."""

    __slots__ = ("arguments", "blanks", "blocks", "has_block_per_part", "is_raw", "state", "stopped")

    def __init__(self, item: Item) -> None:
        self.state = ItemState(item)
        self.has_block_per_part = self.state.type == "message"
        self.blocks: dict[int | None, int] = {}
        self.stopped: set[int | None] = set()
        """The keys of blocks that have ended."""
        self.blanks: dict[int | None, str] = {}
        """The white space at the beginning of parts of a message, until other text follows."""
        self.arguments: str | None = None
        """The beginning of a call's arguments, until enough of it has come; None before it and after it."""
        self.is_raw = False
        """Whether the arguments of a call are written within an object, because they are none."""


class MessagesEncoder(EventEncoder):
    """Encodes one message, from `message_start` to `message_stop`. The batches must satisfy the event grammar.

    The API has one open block at a time, and items may overlap: while a block is open, the events of other blocks are
    buffered. `thinking` is the client's view of reasoning items. `seal` seals the data of items that the client has to
    send back.
    """

    def __init__(self, *, message_id: str, model: str, thinking: ThinkingView, seal: ItemSeal | None = None) -> None:
        super().__init__()
        self._message_id = message_id
        self._model = model
        self._thinking = thinking
        self._seal = seal
        self._has_head = False
        self._block_count = 0
        self._has_calls = False
        self._is_refusal = False
        self._search_count = 0
        self._items: dict[int, _ItemBlocks] = {}
        self._open_key: TextKey | None = None
        """The item of the open block, and its key in `_ItemBlocks.blocks`; None if no block is open."""
        self._held: dict[int, list[Event]] = {}
        """The events that wait for the end of the open block, by item."""

    def _write_event(self, event: Event, frames: list[bytes]) -> None:
        self._write_or_hold(event, frames)
        while self._held and self._open_key is None:
            for held in self._held.pop(min(self._held)):
                self._write_or_hold(held, frames)

    def _write_or_hold(self, event: Event, frames: list[bytes]) -> None:
        if self._open_key is not None and isinstance(event, _BlockEvent) and self._must_wait(event, *self._open_key):
            self._held.setdefault(event.index, []).append(event)
        elif isinstance(event, Delta):
            frames.append(self.feed((event,)))
        else:
            super()._write_event(event, frames)

    def _must_wait(self, event: _BlockEvent, index: int, key: int | None) -> bool:
        """Whether an event belongs to another block than the open one, which has this item and key."""
        if event.index != index:
            return True
        part_index = None if isinstance(event, ItemStarted | ItemEnded) else event.part_index
        return self._items[index].has_block_per_part and part_index not in (None, key)

    def build_delta_template(self, run: DeltaRun, observers: Sequence[TextObserver] = ()) -> DeltaTemplate | None:
        """Returns the template that forwards reads of the run; None if their text is not sent in deltas."""
        return super().build_delta_template(run, observers) if run.text_key[0] in self._items else None

    def _encode_failure(self, failed: Failed, /) -> bytes:
        return _encode(build_error_body(failed.message, code=failed.code), "error")

    def _encode_end(self, finished: Finished, /) -> bytes:
        frames: list[bytes] = []
        self._write_head(frames)
        stop = reply_objects.build_stop(finished, called=self._has_calls, refused=self._is_refusal, facts=self._facts)
        usage = reply_objects.build_message_usage(self._usage, {}) | build_search_usage(self._search_count)
        frames.append(_encode({"type": "message_delta", "delta": stop, "usage": usage}))
        frames.append(_encode({"type": "message_stop"}))
        return b"".join(frames)

    def _write_head(self, frames: list[bytes]) -> None:
        """Writes the beginning of the message, once. It waits for the first block, since it has the usage."""
        if not self._has_head:
            self._has_head = True
            usage = reply_objects.build_message_usage(self._usage, self._facts)
            head = reply_objects.build_head(self._message_id, self._model, usage)
            frames.append(_encode({"type": "message_start", "message": head}))

    def _open_block(self, index: int, key: int | None, block: Json, frames: list[bytes]) -> None:
        """Writes the beginning of a block of an item. The block stays open."""
        self._items[index].blocks[key] = self._start_block(block, frames)
        self._open_key = (index, key)

    def _start_block(self, block: Json, frames: list[bytes]) -> int:
        """Writes the beginning of a block, and returns its index."""
        self._write_head(frames)
        index = self._block_count
        self._block_count += 1
        frames.append(_encode({"type": "content_block_start", "index": index, "content_block": block}))
        return index

    def _start_item(self, event: ItemStarted, frames: list[bytes], /) -> None:
        item = event.item
        entry = self._items[event.index] = _ItemBlocks(item)
        if item["type"] == "function_call":
            self._has_calls = True
            block = {"type": "tool_use", "id": item["call_id"], "name": item["name"], "input": {}}
            self._open_block(event.index, None, block, frames)
            if item.get("arguments"):
                self._write_arguments(event.index, item["arguments"], frames)
        elif item["type"] == SEARCH_ITEM:
            use = build_search_use(item)
            self._open_block(event.index, None, {**use, "input": {}}, frames)
            if use["input"]["query"]:  # other upstreams know it only at the end of the search
                self._end_search_use(entry, use, frames)

    def _end_search_use(self, entry: _ItemBlocks, use: Json, frames: list[bytes]) -> None:
        """Writes the input and the end of the block of a search's call, unless they are written."""
        if None not in entry.stopped:
            _, deltas = split_block(use)
            self._write_deltas(entry.blocks[None], deltas, frames)
            self._stop_block(entry, None, frames)

    def _start_part(self, event: PartStarted, frames: list[bytes], /) -> None:
        entry = self._items[event.index]
        entry.state.start_part(event.part)
        if text := text_of(entry.state.type, event.part):
            self._write_text(event.index, event.part_index, text, frames, is_initial=True)

    def _write_text(
        self, index: int, part_index: int | None, text: str, frames: list[bytes], /, *, is_initial: bool = False
    ) -> None:
        """Writes the first text of a block, and builds the template for the following texts.

        An `is_initial` text is in the object that was started already.
        """
        if not is_initial:
            delta = Delta(index, part_index, text)
            if self._open_key is not None and self._must_wait(delta, *self._open_key):
                self._held.setdefault(index, []).append(delta)
                return
            self._items[index].state.add_delta(delta)
        entry = self._items[index]
        kind = entry.state.type
        if kind == "function_call":
            self._write_arguments(index, text, frames)
        elif text and kind == "message":
            self._write_answer_text(index, part_index, text, frames)
        elif text and kind == "reasoning" and self._thinking == "text":
            self._write_first_text(index, part_index, text, frames)

    def _write_answer_text(self, index: int, part_index: int | None, text: str, frames: list[bytes]) -> None:
        """Writes the first text of a block of the answer. White space waits for other text.

        Models write it before a call. The API refuses blocks of white space only when a client sends them back.
        """
        blanks = self._items[index].blanks
        text = blanks.pop(part_index, "") + text
        if text.strip():
            self._write_first_text(index, part_index, text, frames)
        else:
            blanks[part_index] = text

    def _write_arguments(self, index: int, text: str, frames: list[bytes]) -> None:
        """Writes a piece of a call's arguments. Any text but the JSON of an object is written within an object.

        Clients parse the arguments with each delta, and fail at one that does not continue the beginning of an object.
        """
        entry = self._items[index]
        if entry.is_raw:
            self._write_raw(entry, text, frames)
            return
        beginning = (entry.arguments or "") + text
        is_object = _begins_object(beginning)
        entry.arguments = beginning if is_object is None else None
        if is_object:
            self._write_first_text(index, None, beginning, frames)
        elif is_object is False:
            self._begin_raw(entry, beginning, frames)

    def _begin_raw(self, entry: _ItemBlocks, text: str, frames: list[bytes]) -> None:
        entry.is_raw = True
        self._write_json(entry, f'{{"{RAW_ARGUMENTS_KEY}":"', frames)
        self._write_raw(entry, text, frames)

    def _write_raw(self, entry: _ItemBlocks, text: str, frames: list[bytes]) -> None:
        if text:
            self._write_json(entry, orjson.dumps(text).decode()[1:-1], frames)

    def _write_json(self, entry: _ItemBlocks, text: str, frames: list[bytes]) -> None:
        self._write_deltas(entry.blocks[None], [{"type": "input_json_delta", "partial_json": text}], frames)

    def _write_first_text(self, index: int, part_index: int | None, text: str, frames: list[bytes]) -> None:
        entry = self._items[index]
        kind = entry.state.type
        delta_type, key, start = _TEXT_DELTAS[kind]
        block_key = None if kind == "reasoning" else part_index  # the parts of a reasoning item are one block
        if block_key not in entry.blocks:
            self._open_block(index, block_key, start, frames)
        elif kind == "reasoning":
            text = BLANK_LINE + text
        frame = _encode(
            {
                "type": "content_block_delta",
                "index": entry.blocks[block_key],
                "delta": {"type": delta_type, key: ""},
            }
        )
        frame_format = frame.replace(b"%", b"%%").replace(b'""', b"%b")
        self._texts[index, part_index] = TextFrames(frame_format, entry.state.part_at(part_index).append)
        frames.append(frame_format % orjson.dumps(text))

    def _end_part(self, event: PartEnded, frames: list[bytes], /) -> None:
        entry = self._items[event.index]
        part = entry.state.end_part(event.part_index, event.part)
        if entry.state.type == "mcp_call" and None not in entry.stopped:
            # The call is sent before it runs, which may take long.
            entry.stopped.add(None)
            self._write_whole_block(build_mcp_use(entry.state.start, part["arguments"]), frames)
        if event.part_index is None or entry.state.type != "message":
            return
        if event.part_index not in entry.blocks:
            self._write_missing(event.index, event.part_index, part, frames)
        self._is_refusal = self._is_refusal or part.get("type") == "refusal"
        self._stop_block(entry, event.part_index, frames)

    def _write_missing(self, index: int, part_index: int, part: Json, frames: list[bytes]) -> None:
        entry = self._items[index]
        entry.blanks.pop(part_index, None)
        if text := text_of(entry.state.type, part):
            self._write_text(index, part_index, text, frames, is_initial=True)

    def _stop_block(self, entry: _ItemBlocks, key: int | None, frames: list[bytes]) -> None:
        """Writes the end of a block, if it is open."""
        if (index := entry.blocks.get(key)) is not None and key not in entry.stopped:
            entry.stopped.add(key)
            self._open_key = None
            frames.append(_encode({"type": "content_block_stop", "index": index}))

    def _write_deltas(self, index: int, deltas: Sequence[Json], frames: list[bytes]) -> None:
        frames += [_encode({"type": "content_block_delta", "index": index, "delta": delta}) for delta in deltas]

    def _annotate(self, event: Annotated, frames: list[bytes], /) -> None:
        entry = self._items[event.index]
        text = entry.state.part_at(event.part_index).text
        citation = reply_objects.cite_url(event.annotation, text)
        if citation is not None and event.part_index in entry.blocks:
            delta = {"type": "citations_delta", "citation": citation}
            self._write_deltas(entry.blocks[event.part_index], [delta], frames)

    def _end_item(self, event: ItemEnded, frames: list[bytes], /) -> None:
        entry = self._items[event.index]
        item = entry.state.end(event.item, event.status)
        match item["type"]:
            case "function_call":
                self._end_call(event.index, entry, item, frames)
            case "reasoning" if entry.blocks:
                if signature := seal_item(item, self._seal):
                    delta = {"type": "signature_delta", "signature": signature}
                    self._write_deltas(entry.blocks[None], [delta], frames)
                self._stop_block(entry, None, frames)
            case "mcp_call" if None in entry.stopped:
                self._write_whole_block(build_mcp_result(item), frames)
            case "web_search_call":
                self._search_count += is_counted(item)
                self._end_search_use(entry, build_search_use(item), frames)
                for block in reply_objects.build_search_outcome(item, self._seal):
                    self._write_whole_block(block, frames)
            case "message" if entry.blocks:
                for key in entry.blocks:
                    self._stop_block(entry, key, frames)
            case _:
                for block in reply_objects.build_blocks(item, self._thinking, self._seal):
                    self._write_whole_block(block, frames)
        del self._items[event.index]

    def _end_call(self, index: int, entry: _ItemBlocks, item: Item, frames: list[bytes]) -> None:
        is_written = (index, None) in self._texts or entry.is_raw
        if not is_written and entry.arguments is None and item.get("arguments"):
            self._write_arguments(index, item["arguments"], frames)
        if entry.arguments is not None and entry.arguments.strip():
            if item.get("status") == "incomplete":
                self._write_json(entry, entry.arguments, frames)
            else:
                self._begin_raw(entry, entry.arguments, frames)
        if entry.is_raw:
            self._write_json(entry, '"}', frames)
        elif item.get("status") != "incomplete" and item["arguments"].strip() and not is_object(item["arguments"]):
            # Clients would complete the JSON by themselves, and run the tool with a part of its input.
            raise ProtocolViolation("the model called a tool with arguments that are not a whole JSON object")
        self._stop_block(entry, None, frames)
        for block in reply_objects.build_call_carrier(item, self._seal):
            self._write_whole_block(block, frames)

    def _write_whole_block(self, block: Json, frames: list[bytes]) -> None:
        start, deltas = split_block(block)
        index = self._start_block(start, frames)
        self._write_deltas(index, deltas, frames)
        frames.append(_encode({"type": "content_block_stop", "index": index}))


def _begins_object(text: str) -> bool | None:
    """Whether a text is the beginning of a JSON object; None if it is too short to decide."""
    first = text.lstrip(_JSON_BLANKS)
    if not first.startswith("{"):
        return False if first else None
    second = first[1:].lstrip(_JSON_BLANKS)
    return second[0] in '"}' if second else None


_JSON_BLANKS: Final = " \t\n\r"

_TEXT_DELTAS: Final[Mapping[str, tuple[str, str, Json]]] = {
    "message": ("text_delta", "text", {"type": "text", "text": ""}),
    "reasoning": ("thinking_delta", "thinking", {"type": "thinking", "thinking": "", "signature": ""}),
    "function_call": ("input_json_delta", "partial_json", {}),
}
"""Type of an item -> (type of the delta for its text, the key of the text, the block as it starts). The block of a call
starts with the item."""


def _encode(event: Json, name: str | None = None) -> bytes:
    return sse.encode_event(name or event["type"], orjson.dumps(event))
