"""Items as chat messages: what Responses keeps apart, chat folds into one message per voice."""

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from translation.chat.lowering.parts import lower_parts, shortest
from translation.chat.reasoning import is_ours
from translation.errors import InvalidRequest, Unrepresentable
from translation.lowering.past_reasoning import is_mark, text_of
from translation.lowering.text_parts import Growing, texts_of_parts
from translation.lowering.unsupported import unsaid_of_messages, unsaid_of_output
from translation.representation.items import OUTPUT_TYPES
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile

_FIELDS: Final = {"none": "reasoning_content", "think_tags": "reasoning_content", "reasoning_details": "reasoning"}
"""How reasoning is replayed -> the field an empty one is said in; elsewhere they are the same."""

_PLACEHOLDER: Final = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""https://ai.google.dev/gemini-api/docs/thought-signatures#faqs"""


def completed(message: Json, profile: Profile) -> Json:
    """An assistant message as the profile wants one that has calls; the same object where nothing is missing."""
    calls = message.get("tool_calls")
    if not calls:
        return message
    added: Json = {}
    if profile.empty_reasoning:
        added[_FIELDS.get(profile.replay_reasoning, profile.replay_reasoning)] = ""
    if profile.call_signatures == "placeholder" and "extra_content" not in calls[0]:
        # Of parallel calls only the first is signed.
        message = {**message, "tool_calls": [{**calls[0], "extra_content": _PLACEHOLDER}, *calls[1:]]}
    return {**added, **message} if added else message


def lower_items(instructions: str | None, items: Sequence[Item], profile: Profile, losses: list[Loss]) -> list[Json]:
    """The messages that say these items.

    Calls, and the reasoning and text before them, become one assistant message; its tool messages follow it directly,
    wherever the outputs stand. Raises InvalidRequest naming the id for a call without its output or an output without
    its call, and Unrepresentable for an item chat has no word for.
    """
    writer = _Messages(items, profile, losses)
    if instructions:
        writer.add_system(instructions)
    for index, item in enumerate(items):
        kind = item.get("type", "")
        write = _ITEMS.get(kind)
        if write is None:
            raise _unknown(kind, f"input[{index}]")
        write(writer, index, item)
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
        self._outputs: dict[str, deque[int]] | None = None
        """Where the outputs of calls are, by their ids; known once there was a call."""
        self._answered: set[int] = set()
        self._calls: list[int] = []
        """Items that are calls of the last message and wait for their outputs."""
        self._assistant: Growing | None = None
        """The last message, while calls may still join it."""
        self._thoughts: list[Item] = []
        """Reasoning that waits for the message it led to."""

    def add_system(self, text: str) -> None:
        role = "developer" if self._profile.developer_role == "developer" else "system"
        self._add_system(role, text)

    def message(self, index: int, item: Item) -> None:
        role, param = item["role"], f"input[{index}].content"
        parts = item["content"]
        if role == "assistant":
            return self._add_assistant(
                "".join(texts_of_parts(parts, param)), "refusal" in [part["type"] for part in parts]
            )
        self.settle()
        if role == "developer":
            role = self._profile.developer_role
        if role == "user":
            self._messages.append({"role": "user", "content": shortest(lower_parts(parts, param, self._losses))})
        else:
            self._add_system(role, "\n".join(texts_of_parts(parts, param)))
        return None

    def reasoning(self, _index: int, item: Item) -> None:
        if not is_mark(item):
            self._thoughts.append(item)

    def call(self, index: int, item: Item) -> None:
        assistant = self._assistant or self._begin()
        self._think(assistant)
        if item["type"] == "function_call":
            call = {"type": "function", "function": {"name": item["name"], "arguments": item["arguments"] or "{}"}}
        else:
            call = {"type": "custom", "custom": {"name": item["name"], "input": item["input"]}}
        assistant.message.setdefault("tool_calls", []).append({"id": item["call_id"], **call})
        self._calls.append(index)

    def output(self, index: int, item: Item) -> None:
        self.settle()
        if index not in self._answered:
            call_id = item.get("call_id")
            raise InvalidRequest(
                f"No tool call with the call_id {call_id!r} comes before this output.", param=f"input[{index}].call_id"
            )

    def settle(self) -> None:
        """The assistant's turn is over: answer its calls before anything else is said."""
        if self._assistant is not None:
            self._think(self._assistant)
            self._end(self._assistant)
        elif self._thoughts:
            self._losses.append(Loss("input", "reasoning dropped"))
            self._thoughts = []
        if not self._calls:
            return
        media: list[Json] = []
        for answer in sorted(map(self._output_of, self._calls)):
            self._add_tool(answer, media)
        if media:
            self._messages.append({"role": "user", "content": media})
        self._calls = []

    def finished(self) -> list[Json]:
        """All of the messages."""
        self.settle()
        if len(self._told) > 1:
            self._messages[0]["content"] = "\n\n".join(self._told)
        return self._messages

    def _begin(self) -> Growing:
        if self._assistant is not None:
            self._end(self._assistant)
        self._assistant = Growing({"role": "assistant"})
        self._messages.append(self._assistant.message)
        return self._assistant

    def _end(self, assistant: Growing) -> None:
        message = assistant.settle()
        if self._calls:
            message |= completed(message, self._profile)
        self._assistant = None

    def _output_of(self, call: int) -> int:
        call_id = self._items[call]["call_id"]
        if self._outputs is None:
            self._outputs = _places_of_outputs(self._items)
        if waiting := self._outputs[call_id]:
            # It stands after the call: one before it would have been refused when its turn came.
            index = waiting.popleft()
            self._answered.add(index)
            return index
        raise InvalidRequest(f"No output for the tool call {call_id!r} follows it.", param=f"input[{call}].call_id")

    def _add_assistant(self, text: str, refused: bool) -> None:
        if refused:
            self._losses.append(Loss("input", "refusal as text"))
        # Between a call and its output there is no room for a message.
        assistant = (self._assistant if self._calls else None) or self._begin()
        assistant.add("content", text)
        self._think(assistant)

    def _add_system(self, role: str, text: str) -> None:
        first = self._messages[0] if self._messages else None
        if self._profile.system_messages == "keep" or first is None:
            if first is None:
                self._told = [text]
            self._messages.append({"role": role, "content": text})
        elif first["role"] in _SYSTEM and (len(self._messages) == 1 or self._profile.system_messages == "merge_all"):
            self._told.append(text)
            if len(self._messages) > 1:
                self._losses.append(Loss("input", "system messages merged"))
        elif self._profile.system_messages == "merge_all":
            self._told = [text]
            self._messages.insert(0, {"role": role, "content": text})
            self._losses.append(Loss("input", "system messages merged"))
        else:
            self._messages.append({"role": role, "content": text})

    def _add_tool(self, index: int, media: list[Json]) -> None:
        """A tool message; `media` collects what it cannot hold."""
        item = self._items[index]
        output, call_id = item["output"], item["call_id"]
        self._losses += unsaid_of_output(item, f"input[{index}]")
        if isinstance(output, str):
            content: str | list[Json] = output
        else:
            parts = lower_parts(output, f"input[{index}].output", self._losses)
            texts = [part["text"] for part in parts if part["type"] == "text"]
            others = [part for part in parts if part["type"] != "text"]
            if others and self._profile.media_in_tool_messages:
                content = parts
            elif others:
                content = "\n".join([*texts, "(The media of this output are in the next user message.)"])
                media += [{"type": "text", "text": f"Media from the output of tool call {call_id}:"}, *others]
                self._losses.append(Loss("input", "tool media moved to a user message"))
            else:
                content = "\n".join(texts)
        self._messages.append({"role": "tool", "tool_call_id": call_id, "content": content})

    def _think(self, assistant: Growing) -> None:
        """Give an assistant message the reasoning that led to it, in the field the upstream wants it back in."""
        if not self._thoughts:
            return
        thoughts, self._thoughts = self._thoughts, []
        field = self._profile.replay_reasoning
        details = [detail for item in thoughts for detail in item.get("details") or () if is_ours(detail)]
        texts = list(map(text_of, thoughts))
        text = "\n\n".join(filter(None, texts))
        if field == "reasoning_details" and details:
            assistant.message.setdefault("reasoning_details", []).extend(details)
            return
        if field == "none" or not all(texts):
            self._losses.append(Loss("input", "reasoning dropped"))
        if field == "none" or not text:
            return
        if field == "think_tags":
            assistant.put_before("content", f"<think>\n{text}\n</think>\n\n")
        else:
            assistant.add("reasoning" if field == "reasoning_details" else field, text)


def _places_of_outputs(items: Sequence[Item]) -> dict[str, deque[int]]:
    places: dict[str, deque[int]] = defaultdict(deque)
    for index, item in enumerate(items):
        if item.get("type") in OUTPUT_TYPES:
            places[item.get("call_id") or ""].append(index)
    return places


_SYSTEM: Final = ("system", "developer")


def _unknown(kind: str, param: str) -> InvalidRequest:
    if kind == "item_reference":
        return InvalidRequest("Items are not stored here: send the item itself, not a reference.", param=param)
    return Unrepresentable(f"this model's API has no items of type {kind!r}", param=param)


_ITEMS: Final[Mapping[str, Callable[[_Messages, int, Item], None]]] = {
    "message": _Messages.message,
    "reasoning": _Messages.reasoning,
    "function_call": _Messages.call,
    "custom_tool_call": _Messages.call,
    "function_call_output": _Messages.output,
    "custom_tool_call_output": _Messages.output,
}
"""Item type -> how it is said. What is not listed is refused by name."""
