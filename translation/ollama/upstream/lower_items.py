"""Lowers items to messages: consecutive items of the assistant become one message."""

from collections.abc import Sequence

from translation.lowering.message_writer import MessageWriter
from translation.lowering.text_parts import MessageBuilder
from translation.lowering.unsupported import find_output_losses
from translation.ollama.upstream.lower_parts import MessageContent, lower_parts
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn
from translation.tools.arguments import parse_past_arguments


def lower_items(turn: Turn, profile: Profile, losses: list[Loss]) -> list[Json]:
    """Returns the messages for a turn's instructions and items. Losses are appended to `losses`.

    Calls, and the reasoning and text before them, become one assistant message. Its tool messages follow it directly,
    wherever the outputs are among the items. Raises InvalidRequest, naming the id, for a call without its output or an
    output without its call, and Unrepresentable for an item type that Ollama does not have.
    """
    writer = _MessageWriter(turn, profile, losses)
    if turn.instructions:
        writer.add_system("system", turn.instructions)
    writer.write_items()
    return writer.finish()


class _MessageWriter(MessageWriter):
    def add_system(self, _role: str, text: str) -> None:
        """Adds a system message: the API has no developer's."""
        super().add_system("system", text)

    def _add_user_content(self, parts: Sequence[Json], index: int) -> None:
        self._append_message("user", lower_parts(parts, f"input[{index}].content", self._losses))

    def _add_call(self, index: int, item: Item) -> None:
        assistant = self._assistant or self._open_assistant()
        self._attach_reasoning(assistant)
        arguments = parse_past_arguments(
            item["arguments"], f"input[{index}].arguments", self._losses, max_bytes=self._profile.max_tool_args_bytes
        )
        call = {"id": item["call_id"], "function": {"name": item["name"], "arguments": arguments}}
        assistant.message.setdefault("tool_calls", []).append(call)
        self._open_calls.append(index)

    def close_assistant(self) -> None:
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

    def _append_message(self, role: str, content: MessageContent, **fields: str) -> None:
        message: Json = {"role": role, "content": content.text, **fields}
        if content.images:
            message["images"] = content.images
        self._messages.append(message)

    def _add_assistant_text(self, text: str) -> None:
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
        self._losses += find_output_losses(item, index)
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
        self._write_reasoning(assistant, reasoning_items, "thinking")
