"""Items as messages of content blocks: users and assistants take turns, tool results are the user's."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from translation.anthropic.details import THINKING, blocks_of
from translation.anthropic.lower_parts import lower_parts, text_blocks
from translation.errors import Unrepresentable
from translation.lowering.past_reasoning import is_mark, text_of
from translation.lowering.text_parts import texts_of_parts
from translation.lowering.unsupported import UNSUCCESSFUL, unsaid_of_messages, unsaid_of_output
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.tools.arguments import arguments_object
from translation.tools.call_ids import CallIds
from translation.tools.call_pairs import Pairs

_NOT_IN_IDS: Final = re.compile(r"[^a-zA-Z0-9_-]")

_OPENING: Final = "(The conversation begins with the assistant's words.)"
"""What a user says first where nobody else does: the API wants a user's message before any other."""


_FAILED: Final = "(The tool failed and said nothing.)"
"""What a failure says that has no words: the API wants some."""


class Said(NamedTuple):
    """`system` are the texts of the system prompt."""

    system: list[str]
    messages: list[Json]


def lower_items(instructions: str | None, items: Sequence[Item], profile: Profile, losses: list[Loss]) -> Said:
    """What these items say, one message per voice.

    The results of a message's calls are the first blocks of the message after it, wherever the outputs stand. Raises
    InvalidRequest naming the id for a call without its output or an output without its call, and Unrepresentable for
    an item the API has no word for.
    """
    writer = _Messages(items, profile, losses)
    if instructions and instructions.strip():
        writer.system.append(instructions)
    for place, item in enumerate(items):
        kind = item.get("type", "")
        write = _ITEMS.get(kind)
        if write is None:
            raise Unrepresentable(f"this model's API has no items of type {kind!r}", param=f"input[{place}]")
        write(writer, place, item)
    writer.settle()
    losses += unsaid_of_messages(items)
    return Said(writer.system, writer.finished())


def is_thought_through(messages: Sequence[Json]) -> bool:
    """Whether the assistant's turn that is under way, if one is, began with thinking: the API refuses to have it begin
    in the middle."""
    first: Json | None = None
    for message in reversed(messages):
        if message["role"] == "assistant":
            first = message["content"][0]
        elif any(block["type"] != "tool_result" for block in message["content"]):
            break
    return first is None or first["type"] in THINKING


class _Messages:
    def __init__(self, items: Sequence[Item], profile: Profile, losses: list[Loss]) -> None:
        self.system: list[str] = []
        self._messages: list[Json] = []
        self._items = items
        self._profile = profile
        self._losses = losses
        self._pairs = Pairs(items)
        self._ids = CallIds()
        self._calls: list[tuple[int, str]] = []
        """Place and id of calls that wait for their results."""

    def message(self, place: int, item: Item) -> None:
        role, param, parts = item["role"], f"input[{place}].content", item["content"]
        if role == "assistant":
            if any(part["type"] == "refusal" for part in parts):
                self._losses.append(Loss("input", "refusal as text"))
            self._say("assistant", text_blocks("".join(texts_of_parts(parts, param))))
            return
        self.settle()
        if role == "developer":
            role = self._profile.developer_role
        if role == "user":
            self._say("user", lower_parts(parts, param, self._losses))
        else:
            self._instruct("\n".join(texts_of_parts(parts, param)))

    def reasoning(self, _place: int, item: Item) -> None:
        blocks = blocks_of(item)
        if not blocks and self._profile.replay_reasoning == "think_tags" and (text := text_of(item)):
            blocks = text_blocks(f"<think>\n{text}\n</think>")
        if not blocks and not is_mark(item):
            self._losses.append(Loss("input", "reasoning dropped"))
        self._say("assistant", blocks)

    def search(self, _place: int, item: Item) -> None:
        blocks = blocks_of(item)
        if not blocks:
            self._losses.append(Loss("input", "web_search_call dropped"))
        self._say("assistant", blocks)

    def call(self, place: int, item: Item) -> None:
        call_id = self._ids.take(_NOT_IN_IDS.sub("_", item["call_id"]))
        given = arguments_object(
            item["arguments"], f"input[{place}].arguments", self._losses, max_bytes=self._profile.max_tool_args_bytes
        )
        self._say("assistant", [{"type": "tool_use", "id": call_id, "name": item["name"], "input": given}])
        self._calls.append((place, call_id))

    def output(self, place: int, _item: Item) -> None:
        self.settle()
        self._pairs.check(place)

    def settle(self) -> None:
        """The assistant's turn is over: answer its calls before anything else is said."""
        if self._messages and self._messages[-1]["role"] == "assistant":
            self._end_with_words(self._messages[-1]["content"])
        answers = sorted((self._pairs.output_of(place), call_id) for place, call_id in self._calls)
        self._say("user", [self._result(place, call_id) for place, call_id in answers])
        self._calls = []

    def finished(self) -> list[Json]:
        """All of the messages."""
        messages = self._messages
        if messages and messages[0]["role"] == "assistant":
            messages.insert(0, {"role": "user", "content": text_blocks(_OPENING)})
            self._losses.append(Loss("input", "begun with a user message"))
        if messages and messages[-1]["role"] == "assistant":
            # The model goes on from here, and the API refuses blanks at the end of what it goes on from.
            last = messages[-1]["content"][-1]
            if last["type"] == "text":
                last["text"] = last["text"].rstrip()
        return messages

    def _say(self, role: str, blocks: list[Json]) -> None:
        if blocks and self._messages and self._messages[-1]["role"] == role:
            self._messages[-1]["content"] += blocks
        elif blocks:
            self._messages.append({"role": role, "content": blocks})

    def _instruct(self, text: str) -> None:
        if not text.strip():
            return
        if not self._messages:
            self.system.append(text)
        elif self._profile.system_messages == "merge_all":
            self.system.append(text)
            self._losses.append(Loss("input", "system messages merged"))
        else:
            self._say("user", text_blocks(f"<system>\n{text}\n</system>"))
            self._losses.append(Loss("input", "system message as user"))

    def _end_with_words(self, blocks: list[Json]) -> None:
        """Leave out thinking that led to nothing: the API refuses a message that ends with it."""
        end = len(blocks)
        while end and blocks[end - 1]["type"] in THINKING:
            end -= 1
        if end < len(blocks):
            self._losses.append(Loss("input", "reasoning dropped"))
            del blocks[end:]
        if not blocks:
            self._messages.pop()

    def _result(self, place: int, call_id: str) -> Json:
        item = self._items[place]
        said = item["output"]
        blocks = (
            text_blocks(said) if isinstance(said, str) else lower_parts(said, f"input[{place}].output", self._losses)
        )
        result: Json = {"type": "tool_result", "tool_use_id": call_id}
        if item.get("status") in UNSUCCESSFUL:
            if all(block["type"] == "text" for block in blocks):
                return {**result, "content": blocks or text_blocks(_FAILED), "is_error": True}
            self._losses += unsaid_of_output(item, f"input[{place}]")  # a failure may be nothing but text
        return {**result, "content": blocks} if blocks else result


_ITEMS: Final[Mapping[str, Callable[[_Messages, int, Item], None]]] = {
    "message": _Messages.message,
    "reasoning": _Messages.reasoning,
    "web_search_call": _Messages.search,
    "function_call": _Messages.call,
    "function_call_output": _Messages.output,
}
"""Item type -> how it is said. What is not listed is refused by name."""
