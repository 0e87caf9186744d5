"""Items as messages: what Responses keeps apart, Ollama folds into one message per voice."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from translation.errors import Unrepresentable
from translation.lowering.past_reasoning import is_mark, text_of
from translation.lowering.text_parts import Growing, texts_of_parts
from translation.lowering.unsupported import unsaid_of_messages, unsaid_of_output
from translation.ollama.lower_parts import Content, lower_parts
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.tools.arguments import arguments_object
from translation.tools.call_pairs import Pairs


def lower_items(instructions: str | None, items: Sequence[Item], profile: Profile, losses: list[Loss]) -> list[Json]:
    """The messages that say these items.

    Calls, and the reasoning and text before them, become one assistant message; its tool messages follow it directly,
    wherever the outputs stand. Raises InvalidRequest naming the id for a call without its output or an output without
    its call, and Unrepresentable for an item Ollama has no word for.
    """
    writer = _Messages(items, profile, losses)
    if instructions:
        writer.add_system("system", instructions)
    for place, item in enumerate(items):
        kind = item.get("type", "")
        write = _ITEMS.get(kind)
        if write is None:
            raise Unrepresentable(f"this model's API has no items of type {kind!r}", param=f"input[{place}]")
        write(writer, place, item)
    losses += unsaid_of_messages(items)
    return writer.finished()


class _Messages:
    def __init__(self, items: Sequence[Item], profile: Profile, losses: list[Loss]) -> None:
        self._messages: list[Json] = []
        self._told: list[str] = []
        """The texts of the first message, while system messages may be merged into it."""
        self._items = items
        self._profile = profile
        self._losses = losses
        self._pairs = Pairs(items)
        self._calls: list[int] = []
        """Items that are calls of the last message and wait for their outputs."""
        self._assistant: Growing | None = None
        """The last message, while calls may still join it."""
        self._thoughts: list[Item] = []
        """Reasoning that waits for the message it led to."""

    def message(self, place: int, item: Item) -> None:
        role, param, parts = item["role"], f"input[{place}].content", item["content"]
        if role == "assistant":
            if any(part["type"] == "refusal" for part in parts):
                self._losses.append(Loss("input", "refusal as text"))
            return self._add_assistant("".join(texts_of_parts(parts, param)))
        self.settle()
        if role == "developer":
            role = "user" if self._profile.developer_role == "user" else "system"
        if role == "user":
            self._add("user", lower_parts(parts, param, self._losses))
        else:
            self.add_system(role, "\n".join(texts_of_parts(parts, param)))
        return None

    def reasoning(self, _place: int, item: Item) -> None:
        if not is_mark(item):
            self._thoughts.append(item)

    def call(self, place: int, item: Item) -> None:
        assistant = self._assistant or self._begin()
        self._think(assistant)
        arguments = arguments_object(
            item["arguments"], f"input[{place}].arguments", self._losses, max_bytes=self._profile.max_tool_args_bytes
        )
        call = {"id": item["call_id"], "function": {"name": item["name"], "arguments": arguments}}
        assistant.message.setdefault("tool_calls", []).append(call)
        self._calls.append(place)

    def output(self, place: int, _item: Item) -> None:
        self.settle()
        self._pairs.check(place)

    def settle(self) -> None:
        """The assistant's turn is over: answer its calls before anything else is said."""
        if self._assistant is not None:
            self._think(self._assistant)
        elif self._thoughts:
            self._losses.append(Loss("input", "reasoning dropped"))
            self._thoughts = []
        self._end()
        answered = [(self._pairs.output_of(call), self._items[call]["name"]) for call in self._calls]
        self._calls = []
        moved: list[Content] = []
        for place, name in sorted(answered):
            self._add_output(place, name, moved)
        if moved:
            images = [image for content in moved for image in content.images]
            self._add("user", Content("\n".join(content.text for content in moved), images))

    def finished(self) -> list[Json]:
        """All of the messages."""
        self.settle()
        if len(self._told) > 1:
            self._messages[0]["content"] = "\n\n".join(self._told)
        return self._messages

    def add_system(self, role: str, text: str) -> None:
        first = self._messages[0] if self._messages else None
        merging = self._profile.system_messages
        if merging == "keep" or first is None or role == "user":
            if first is None:
                self._told = [text]
            self._add(role, Content(text, []))
        elif first["role"] == "system" and (len(self._messages) == 1 or merging == "merge_all"):
            self._told.append(text)
            if len(self._messages) > 1:
                self._losses.append(Loss("input", "system messages merged"))
        elif merging == "merge_all":
            self._told = [text]
            self._messages.insert(0, {"role": role, "content": text})
            self._losses.append(Loss("input", "system messages merged"))
        else:
            self._add(role, Content(text, []))

    def _add(self, role: str, content: Content, **more: str) -> None:
        message: Json = {"role": role, "content": content.text, **more}
        if content.images:
            message["images"] = content.images
        self._messages.append(message)

    def _add_assistant(self, text: str) -> None:
        # Between a call and its output there is no room for a message.
        assistant = (self._assistant if self._calls else None) or self._begin()
        assistant.add("content", text)
        self._think(assistant)

    def _begin(self) -> Growing:
        self._end()
        self._assistant = Growing({"role": "assistant", "content": ""})
        self._messages.append(self._assistant.message)
        return self._assistant

    def _end(self) -> None:
        if self._assistant is not None:
            self._assistant.settle()
        self._assistant = None

    def _add_output(self, place: int, name: str, moved: list[Content]) -> None:
        """A tool message; `moved` collects images that it cannot hold."""
        item = self._items[place]
        said, call_id = item["output"], item["call_id"]
        self._losses += unsaid_of_output(item, f"input[{place}]")
        content = Content(said, []) if isinstance(said, str) else self._parts(said, place)
        if content.images and not self._profile.media_in_tool_messages:
            moved.append(Content(f"Media from the output of tool call {call_id}:", content.images))
            self._losses.append(Loss("input", "tool media moved to a user message"))
            told = "(The media of this output are in the next user message.)"
            content = Content("\n".join(filter(None, (content.text, told))), [])
        self._add("tool", content, tool_name=name, tool_call_id=call_id)

    def _parts(self, said: Sequence[Json], place: int) -> Content:
        return lower_parts(said, f"input[{place}].output", self._losses)

    def _think(self, assistant: Growing) -> None:
        """Give the assistant message the reasoning that led to it."""
        thoughts, self._thoughts = self._thoughts, []
        if not thoughts:
            return
        field = self._profile.replay_reasoning
        texts = list(map(text_of, thoughts))
        text = "\n\n".join(filter(None, texts))
        if field == "none" or not all(texts):
            self._losses.append(Loss("input", "reasoning dropped"))
        if field == "none" or not text:
            return
        if field == "think_tags":
            assistant.put_before("content", f"<think>\n{text}\n</think>\n\n")
        else:
            assistant.add("thinking", text)


_ITEMS: Final[Mapping[str, Callable[[_Messages, int, Item], None]]] = {
    "message": _Messages.message,
    "reasoning": _Messages.reasoning,
    "function_call": _Messages.call,
    "function_call_output": _Messages.output,
}
"""Item type -> how it is said. What is not listed is refused by name."""
