"""Lowers items to messages of content blocks. User and assistant messages alternate, tool results are the user's."""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Final, NamedTuple

from translation.lowering.reasoning import is_signature_only, render_past_reasoning
from translation.lowering.turn_writer import OPENING_USER_TEXT, TurnWriter, WriteItem
from translation.lowering.unsupported import UNSUCCESSFUL_STATUSES, find_output_losses
from translation.messages.upstream.details import THINKING_BLOCKS, blocks_of
from translation.messages.upstream.lower_parts import lower_parts, text_blocks
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn
from translation.tools.arguments import parse_past_arguments
from translation.tools.call_ids import CallIdAllocator
from translation.tools.searches import SEARCH_ITEM

_INVALID_ID_CHARS: Final = re.compile(r"[^a-zA-Z0-9_-]")

_FAILURE_TEXT: Final = "(The tool failed and said nothing.)"
"""The content of a failed result that has none: the API requires one."""


class LoweredItems(NamedTuple):
    """The system prompt and the messages of a request."""

    system: list[str]
    """The texts of the system prompt, in order."""
    messages: list[Json]


def lower_items(turn: Turn, profile: Profile, losses: list[Loss]) -> LoweredItems:
    """Returns the messages for a turn's instructions and items. Losses are appended to `losses`.

    Consecutive items of one role become one message. The results of a message's calls are the first blocks of the next
    message, wherever the outputs are among the items. Raises InvalidRequest, naming the id, for a call without its
    output or an output without its call, and for a last message that is not sent, and Unrepresentable for an item type
    that the API does not have.
    """
    writer = _MessageWriter(turn, profile, losses)
    if turn.instructions and turn.instructions.strip():
        writer.system.append(turn.instructions)
    writer.write_items()
    return LoweredItems(writer.system, writer.finish())


def clean_call_id(call_id: str) -> str:
    """Returns the id of a call in the characters that the API accepts. Other models write `functions.f:0`."""
    return _INVALID_ID_CHARS.sub("_", call_id)


def open_turn_has_thinking(messages: Sequence[Json]) -> bool:
    """Whether the assistant's turn that the request continues began with thinking. True if it continues none.

    The API refuses thinking that begins in the middle of a turn.
    """
    first: Json | None = None
    for message in reversed(messages):
        if message["role"] == "assistant":
            first = message["content"][0]
        elif any(block["type"] != "tool_result" for block in message["content"]):
            break
    return first is None or first["type"] in THINKING_BLOCKS


class _MessageWriter(TurnWriter):
    def __init__(self, turn: Turn, profile: Profile, losses: list[Loss]) -> None:
        super().__init__(turn, profile, losses)
        self.system: list[str] = []
        self._messages: list[Json] = []
        self._ids = CallIdAllocator()
        self._open_calls: list[tuple[int, str]] = []
        """Item index and sent id of the calls in the last message, whose results are not written yet."""

    @cached_property
    def _last_other_index(self) -> int:
        """The index of the last item that is no search; -1 if there is none."""
        others = (index for index, item in enumerate(self._items) if item["type"] != SEARCH_ITEM)
        return max(others, default=-1)

    def _build_item_writers(self) -> dict[str, WriteItem]:
        return super()._build_item_writers() | {SEARCH_ITEM: self._add_search}

    def _add_user_content(self, parts: Sequence[Json], index: int) -> None:
        self._append_blocks("user", lower_parts(parts, f"input[{index}].content", self._losses))

    def _add_assistant_text(self, text: str) -> None:
        self._append_blocks("assistant", text_blocks(text))

    def _add_reasoning(self, _index: int, item: Item) -> None:
        blocks = blocks_of(item)
        if not blocks and self._profile.replay_reasoning == "think_tags" and (text := render_past_reasoning(item)):
            blocks = text_blocks(f"<think>\n{text}\n</think>")
        if not blocks and not is_signature_only(item):
            self._losses.append(Loss("input", "reasoning dropped"))
        self._append_blocks("assistant", blocks)

    def _add_search(self, index: int, item: Item) -> None:
        blocks = blocks_of(item)
        if len(blocks) == 1 and index < self._last_other_index:
            blocks = []  # the API continues a call that was not run, and refuses it if other blocks follow
        if not blocks:
            self._losses.append(Loss("input", "web_search_call dropped"))
        self._append_blocks("assistant", blocks)

    def _add_call(self, index: int, item: Item) -> None:
        call_id = self._ids.claim(clean_call_id(item["call_id"]))
        arguments = parse_past_arguments(
            item["arguments"], f"input[{index}].arguments", self._losses, max_bytes=self._profile.max_tool_args_bytes
        )
        self._append_blocks(
            "assistant", [{"type": "tool_use", "id": call_id, "name": item["name"], "input": arguments}]
        )
        self._open_calls.append((index, call_id))

    def close_assistant(self) -> None:
        if self._messages and self._messages[-1]["role"] == "assistant":
            self._strip_trailing_thinking(self._messages[-1]["content"])
        outputs = sorted((self._turn.call_pairs.output_of(index), call_id) for index, call_id in self._open_calls)
        self._append_blocks("user", [self._build_result(index, call_id) for index, call_id in outputs])
        self._open_calls = []

    def finish(self) -> list[Json]:
        """Returns all messages, beginning with one of the user."""
        messages = self._messages
        if messages and messages[0]["role"] == "assistant":
            messages.insert(0, {"role": "user", "content": text_blocks(OPENING_USER_TEXT)})
            self._losses.append(Loss("input", "begun with a user message"))
        if messages and messages[-1]["role"] == "assistant":
            self.check_end()
            # The model continues this message, and the API refuses trailing white space there.
            last = messages[-1]["content"][-1]
            if last["type"] == "text":
                last["text"] = last["text"].rstrip()
        return messages

    def _append_blocks(self, role: str, blocks: list[Json]) -> None:
        if blocks and self._messages and self._messages[-1]["role"] == role:
            self._messages[-1]["content"] += blocks
        elif blocks:
            self._messages.append({"role": role, "content": blocks})

    def add_system(self, _role: str, text: str) -> None:
        if not text.strip():
            return
        if not self._messages:
            self.system.append(text)
        elif self._profile.system_messages == "merge_all":
            self.system.append(text)
            self._losses.append(Loss("input", "system messages merged"))
        else:
            self._append_blocks("user", text_blocks(f"<system>\n{text}\n</system>"))
            self._losses.append(Loss("input", "system message as user"))

    def _strip_trailing_thinking(self, blocks: list[Json]) -> None:
        """Removes thinking blocks at the end of a message, which the API refuses."""
        end = len(blocks)
        while end and blocks[end - 1]["type"] in THINKING_BLOCKS:
            end -= 1
        if end < len(blocks):
            self._losses.append(Loss("input", "reasoning dropped"))
            del blocks[end:]
        if not blocks:
            self._messages.pop()

    def _build_result(self, index: int, call_id: str) -> Json:
        item = self._items[index]
        output = item["output"]
        blocks = (
            text_blocks(output)
            if isinstance(output, str)
            else lower_parts(output, f"input[{index}].output", self._losses)
        )
        result: Json = {"type": "tool_result", "tool_use_id": call_id}
        if item.get("status") in UNSUCCESSFUL_STATUSES:
            if all(block["type"] == "text" for block in blocks):
                return {**result, "content": blocks or text_blocks(_FAILURE_TEXT), "is_error": True}
            self._losses += find_output_losses(item, index)  # the API accepts only text with `is_error`
        return {**result, "content": blocks} if blocks else result
