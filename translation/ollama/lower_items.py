"""Lowers items to messages: consecutive items of the assistant become one message."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from translation.errors import Unrepresentable
from translation.lowering.past_reasoning import is_signature_only, past_reasoning_text
from translation.lowering.text_parts import MessageBuilder, assistant_text, texts_of_parts
from translation.lowering.unsupported import history_losses, output_losses
from translation.ollama.lower_parts import MessageContent, lower_parts
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn
from translation.tools.arguments import arguments_object


def lower_items(turn: Turn, profile: Profile, losses: list[Loss]) -> list[Json]:
    """Returns the messages for a turn's instructions and items. What is dropped is appended to `losses`.

    Calls, and the reasoning and text before them, become one assistant message. Its tool messages follow it directly,
    wherever the outputs are among the items. Raises InvalidRequest, naming the id, for a call without its output or an
    output without its call, and Unrepresentable for an item type that Ollama does not have.
    """
    writer = _MessageWriter(turn, profile, losses)
    if turn.instructions:
        writer.add_system("system", turn.instructions)
    for index, item in enumerate(turn.items):
        kind = item.get("type", "")
        write = _ITEM_WRITERS.get(kind)
        if write is None:
            raise Unrepresentable(f"this model's API has no items of type {kind!r}", param=f"input[{index}]")
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
        self._open_calls: list[int] = []
        """Indexes of the calls in the last message, whose tool messages are not written yet."""
        self._assistant: MessageBuilder | None = None
        """The last message, as long as calls may be added to it."""
        self._pending_reasoning: list[Item] = []
        """Reasoning items whose assistant message does not exist yet."""

    def add_message(self, index: int, item: Item) -> None:
        role, parts = item["role"], item["content"]
        if role == "assistant":
            return self._append_assistant_text(assistant_text(parts, index, self._losses))
        self.close_assistant()
        if role == "developer":
            role = "user" if self._profile.developer_role == "user" else "system"
        if role == "user":
            self._append_message("user", lower_parts(parts, f"input[{index}].content", self._losses))
        else:
            self.add_system(role, "\n".join(texts_of_parts(parts, index)))
        return None

    def add_reasoning(self, _index: int, item: Item) -> None:
        if not is_signature_only(item):
            self._pending_reasoning.append(item)

    def add_call(self, index: int, item: Item) -> None:
        assistant = self._assistant or self._open_assistant()
        self._attach_reasoning(assistant)
        arguments = arguments_object(
            item["arguments"], f"input[{index}].arguments", self._losses, max_bytes=self._profile.max_tool_args_bytes
        )
        call = {"id": item["call_id"], "function": {"name": item["name"], "arguments": arguments}}
        assistant.message.setdefault("tool_calls", []).append(call)
        self._open_calls.append(index)

    def check_output(self, index: int, _item: Item) -> None:
        self.close_assistant()
        self._pairs.check_output(index)

    def close_assistant(self) -> None:
        """Finishes the assistant message and writes the tool messages of its calls, before any other message."""
        if self._assistant is not None:
            self._attach_reasoning(self._assistant)
        elif self._pending_reasoning:
            self._losses.append(Loss("input", "reasoning dropped"))
            self._pending_reasoning = []
        self._finish_assistant()
        outputs = [(self._pairs.output_of(call), self._items[call]["name"]) for call in self._open_calls]
        self._open_calls = []
        moved_media: list[MessageContent] = []
        for index, name in sorted(outputs):
            self._add_output(index, name, moved_media)
        if moved_media:
            images = [image for content in moved_media for image in content.images]
            self._append_message("user", MessageContent("\n".join(content.text for content in moved_media), images))

    def finish(self) -> list[Json]:
        """Closes the last message and returns all of them."""
        self.close_assistant()
        if len(self._system_texts) > 1:
            self._messages[0]["content"] = "\n\n".join(self._system_texts)
        return self._messages

    def add_system(self, role: str, text: str) -> None:
        first = self._messages[0] if self._messages else None
        merging = self._profile.system_messages
        if merging == "keep" or first is None or role == "user":
            if first is None:
                self._system_texts = [text]
            self._append_message(role, MessageContent(text, []))
        elif first["role"] == "system" and (len(self._messages) == 1 or merging == "merge_all"):
            self._system_texts.append(text)
            if len(self._messages) > 1:
                self._losses.append(Loss("input", "system messages merged"))
        elif merging == "merge_all":
            self._system_texts = [text]
            self._messages.insert(0, {"role": role, "content": text})
            self._losses.append(Loss("input", "system messages merged"))
        else:
            self._append_message(role, MessageContent(text, []))

    def _append_message(self, role: str, content: MessageContent, **fields: str) -> None:
        message: Json = {"role": role, "content": content.text, **fields}
        if content.images:
            message["images"] = content.images
        self._messages.append(message)

    def _append_assistant_text(self, text: str) -> None:
        # No message may come between a call and its output, so the text joins the message with the calls.
        assistant = (self._assistant if self._open_calls else None) or self._open_assistant()
        assistant.add_paragraph("content", text)
        self._attach_reasoning(assistant)

    def _open_assistant(self) -> MessageBuilder:
        self._finish_assistant()
        self._assistant = MessageBuilder({"role": "assistant", "content": ""})
        self._messages.append(self._assistant.message)
        return self._assistant

    def _finish_assistant(self) -> None:
        if self._assistant is not None:
            self._assistant.build()
        self._assistant = None

    def _add_output(self, index: int, name: str, moved_media: list[MessageContent]) -> None:
        """Writes a tool message. Images that the upstream does not accept in one are appended to `moved_media`."""
        item = self._items[index]
        output, call_id = item["output"], item["call_id"]
        self._losses += output_losses(item, index)
        content = MessageContent(output, []) if isinstance(output, str) else self._lower_output(output, index)
        if content.images and not self._profile.media_in_tool_messages:
            moved_media.append(MessageContent(f"Media from the output of tool call {call_id}:", content.images))
            self._losses.append(Loss("input", "tool media moved to a user message"))
            notice = "(The media of this output are in the next user message.)"
            content = MessageContent("\n".join(filter(None, (content.text, notice))), [])
        self._append_message("tool", content, tool_name=name, tool_call_id=call_id)

    def _lower_output(self, output: Sequence[Json], index: int) -> MessageContent:
        return lower_parts(output, f"input[{index}].output", self._losses)

    def _attach_reasoning(self, assistant: MessageBuilder) -> None:
        """Adds the pending reasoning to the assistant message."""
        reasoning_items, self._pending_reasoning = self._pending_reasoning, []
        if not reasoning_items:
            return
        field = self._profile.replay_reasoning
        texts = list(map(past_reasoning_text, reasoning_items))
        text = "\n\n".join(filter(None, texts))
        if field == "none" or not all(texts):
            self._losses.append(Loss("input", "reasoning dropped"))
        if field == "none" or not text:
            return
        if field == "think_tags":
            assistant.prepend("content", f"<think>\n{text}\n</think>\n\n")
        else:
            assistant.add_paragraph("thinking", text)


_ITEM_WRITERS: Final[Mapping[str, Callable[[_MessageWriter, int, Item], None]]] = {
    "message": _MessageWriter.add_message,
    "reasoning": _MessageWriter.add_reasoning,
    "function_call": _MessageWriter.add_call,
    "function_call_output": _MessageWriter.check_output,
}
"""Item type -> the method that writes it. A type that is not listed is refused by name."""
