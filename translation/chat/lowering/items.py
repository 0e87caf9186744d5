"""Lowers Responses items to chat messages: consecutive items of the assistant become one message.

Does not know tools or parameters.
"""

from collections.abc import Callable, Mapping
from typing import Final

from translation.chat.lowering.parts import lower_content, lower_parts
from translation.chat.reasoning import is_chat_detail
from translation.errors import InvalidRequest, Unrepresentable
from translation.lowering.past_reasoning import is_signature_only, past_reasoning_text
from translation.lowering.text_parts import MessageBuilder, assistant_text, texts_of_parts
from translation.lowering.unsupported import history_losses, output_losses
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

_EMPTY_REASONING_FIELDS: Final = {
    "none": "reasoning_content",
    "think_tags": "reasoning_content",
    "reasoning_details": "reasoning",
}
"""Profile's `replay_reasoning` -> the field for empty reasoning. For values not listed it is the field of that name."""

_PLACEHOLDER_SIGNATURE: Final = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""https://ai.google.dev/gemini-api/docs/thought-signatures#faqs"""


def add_required_fields(message: Json, profile: Profile) -> Json:
    """Returns an assistant message with the fields that the profile requires beside calls.

    They are an empty reasoning field and a placeholder signature. Returns the same object if nothing is missing.
    """
    calls = message.get("tool_calls")
    if not calls:
        return message
    added: Json = {}
    if profile.empty_reasoning:
        added[_EMPTY_REASONING_FIELDS.get(profile.replay_reasoning, profile.replay_reasoning)] = ""
    if profile.call_signatures == "placeholder" and "extra_content" not in calls[0]:
        # Of parallel calls only the first is signed.
        message = {**message, "tool_calls": [{**calls[0], "extra_content": _PLACEHOLDER_SIGNATURE}, *calls[1:]]}
    return {**added, **message} if added else message


def lower_items(turn: Turn, profile: Profile, losses: list[Loss]) -> list[Json]:
    """Returns the chat messages for a turn's instructions and items. What is dropped is appended to `losses`.

    Calls, and the reasoning and text before them, become one assistant message. Its tool messages follow it directly,
    wherever the outputs are among the items. Raises InvalidRequest, naming the id, for a call without its output or an
    output without its call, and Unrepresentable for an item type that chat does not have.
    """
    writer = _MessageWriter(turn, profile, losses)
    if turn.instructions:
        writer.add_instructions(turn.instructions)
    for index, item in enumerate(turn.items):
        write = _ITEM_WRITERS.get(item.get("type", ""))
        if write is None:
            raise _unknown_item_error(item.get("type", ""), f"input[{index}]")
        write(writer, index, item)
    losses += history_losses(turn.items)
    return writer.finish()


class _MessageWriter:
    def __init__(self, turn: Turn, profile: Profile, losses: list[Loss]) -> None:
        self._messages: list[Json] = []
        self._system_texts: list[str] = []
        """The texts of the first message, as long as system messages may be merged into it."""
        self._items = turn.items
        self._profile = profile
        self._losses = losses
        self._pairs = turn.call_pairs
        self._requires_fields = profile.empty_reasoning or profile.call_signatures == "placeholder"
        """Whether assistant messages with calls may need more fields (`add_required_fields`)."""
        self._open_calls: list[int] = []
        """Indexes of the calls in the last message, whose tool messages are not written yet."""
        self._assistant: MessageBuilder | None = None
        """The last message, as long as calls may be added to it."""
        self._pending_reasoning: list[Item] = []
        """Reasoning items whose assistant message does not exist yet."""

    def add_instructions(self, text: str) -> None:
        role = "developer" if self._profile.developer_role == "developer" else "system"
        self._add_system(role, text)

    def add_message(self, index: int, item: Item) -> None:
        role, parts = item["role"], item["content"]
        if role == "assistant":
            # No message may come between a call and its output, so the text joins the message with the calls.
            assistant = (self._assistant if self._open_calls else None) or self._open_assistant()
            assistant.add_paragraph("content", assistant_text(parts, index, self._losses))
            if self._pending_reasoning:
                self._attach_reasoning(assistant)
            return
        self.close_assistant()
        if role == "developer":
            role = self._profile.developer_role
        if role == "user":
            self._messages.append({"role": "user", "content": lower_content(parts, index, self._losses)})
        else:
            self._add_system(role, "\n".join(texts_of_parts(parts, index)))

    def add_reasoning(self, _index: int, item: Item) -> None:
        if not is_signature_only(item):
            self._pending_reasoning.append(item)

    def add_call(self, index: int, item: Item) -> None:
        assistant = self._assistant or self._open_assistant()
        if self._pending_reasoning:
            self._attach_reasoning(assistant)
        if item["type"] == "function_call":
            function = {"name": item["name"], "arguments": item["arguments"] or "{}"}
            call = {"id": item["call_id"], "type": "function", "function": function}
        else:
            custom = {"name": item["name"], "input": item["input"]}
            call = {"id": item["call_id"], "type": "custom", "custom": custom}
        assistant.message.setdefault("tool_calls", []).append(call)
        self._open_calls.append(index)

    def check_output(self, index: int, _item: Item) -> None:
        self.close_assistant()
        self._pairs.check_output(index)

    def close_assistant(self) -> None:
        """Finishes the assistant message and writes the tool messages of its calls, before any other message."""
        if self._assistant is not None:
            if self._pending_reasoning:
                self._attach_reasoning(self._assistant)
            self._finish_assistant(self._assistant)
        elif self._pending_reasoning:
            self._losses.append(Loss("input", "reasoning dropped"))
            self._pending_reasoning = []
        if not self._open_calls:
            return
        media: list[Json] = []
        for index in sorted(map(self._pairs.output_of, self._open_calls)):
            self._add_tool(index, media)
        if media:
            self._messages.append({"role": "user", "content": media})
        self._open_calls = []

    def finish(self) -> list[Json]:
        """Closes the last message and returns all of them."""
        self.close_assistant()
        if len(self._system_texts) > 1:
            self._messages[0]["content"] = "\n\n".join(self._system_texts)
        return self._messages

    def _open_assistant(self) -> MessageBuilder:
        if self._assistant is not None:
            self._finish_assistant(self._assistant)
        self._assistant = MessageBuilder({"role": "assistant"})
        self._messages.append(self._assistant.message)
        return self._assistant

    def _finish_assistant(self, assistant: MessageBuilder) -> None:
        message = assistant.build()
        if self._open_calls and self._requires_fields:
            message |= add_required_fields(message, self._profile)
        self._assistant = None

    def _add_system(self, role: str, text: str) -> None:
        first = self._messages[0] if self._messages else None
        if self._profile.system_messages == "keep" or first is None:
            if first is None:
                self._system_texts = [text]
            self._messages.append({"role": role, "content": text})
        elif first["role"] in _SYSTEM_ROLES and (
            len(self._messages) == 1 or self._profile.system_messages == "merge_all"
        ):
            self._system_texts.append(text)
            if len(self._messages) > 1:
                self._losses.append(Loss("input", "system messages merged"))
        elif self._profile.system_messages == "merge_all":
            self._system_texts = [text]
            self._messages.insert(0, {"role": role, "content": text})
            self._losses.append(Loss("input", "system messages merged"))
        else:
            self._messages.append({"role": role, "content": text})

    def _add_tool(self, index: int, media: list[Json]) -> None:
        """Writes a tool message. Parts that the upstream does not accept in one are appended to `media`."""
        item = self._items[index]
        output, call_id = item["output"], item["call_id"]
        self._losses += output_losses(item, index)
        if isinstance(output, str):
            content: str | list[Json] = output
        else:
            parts = lower_parts(output, index, "output", self._losses)
            texts = [part["text"] for part in parts if part["type"] == "text"]
            media_parts = [part for part in parts if part["type"] != "text"]
            if media_parts and self._profile.media_in_tool_messages:
                content = parts
            elif media_parts:
                content = "\n".join([*texts, "(The media of this output are in the next user message.)"])
                media += [{"type": "text", "text": f"Media from the output of tool call {call_id}:"}, *media_parts]
                self._losses.append(Loss("input", "tool media moved to a user message"))
            else:
                content = "\n".join(texts)
        self._messages.append({"role": "tool", "tool_call_id": call_id, "content": content})

    def _attach_reasoning(self, assistant: MessageBuilder) -> None:
        """Adds the pending reasoning to an assistant message, in the field that the upstream reads it from."""
        reasoning_items, self._pending_reasoning = self._pending_reasoning, []
        field = self._profile.replay_reasoning
        details = [detail for item in reasoning_items for detail in item.get("details") or () if is_chat_detail(detail)]
        texts = list(map(past_reasoning_text, reasoning_items))
        text = "\n\n".join(filter(None, texts))
        if field == "reasoning_details" and details:
            assistant.message.setdefault("reasoning_details", []).extend(details)
            return
        if field == "none" or not all(texts):
            self._losses.append(Loss("input", "reasoning dropped"))
        if field == "none" or not text:
            return
        if field == "think_tags":
            assistant.prepend("content", f"<think>\n{text}\n</think>\n\n")
        else:
            assistant.add_paragraph("reasoning" if field == "reasoning_details" else field, text)


_SYSTEM_ROLES: Final = ("system", "developer")


def _unknown_item_error(kind: str, param: str) -> InvalidRequest:
    if kind == "item_reference":
        return InvalidRequest("Items are not stored here: send the item itself, not a reference.", param=param)
    return Unrepresentable(f"this model's API has no items of type {kind!r}", param=param)


_ITEM_WRITERS: Final[Mapping[str, Callable[[_MessageWriter, int, Item], None]]] = {
    "message": _MessageWriter.add_message,
    "reasoning": _MessageWriter.add_reasoning,
    "function_call": _MessageWriter.add_call,
    "custom_tool_call": _MessageWriter.add_call,
    "function_call_output": _MessageWriter.check_output,
    "custom_tool_call_output": _MessageWriter.check_output,
}
"""Item type -> the method that writes it. A type that is not listed is refused by name."""
