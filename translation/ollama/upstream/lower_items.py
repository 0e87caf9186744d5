"""Lowers items to messages: consecutive items of the assistant become one message."""

from collections.abc import Sequence
from typing import ClassVar

from translation.lowering.message_writer import MOVED_MEDIA_NOTICE, MessageWriter
from translation.lowering.text_parts import MessageBuilder
from translation.lowering.unsupported import find_output_losses
from translation.ollama.upstream.lower_parts import MessageContent, lower_parts
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn
from translation.tools.arguments import parse_past_arguments


def lower_items(turn: Turn, profile: Profile, losses: list[Loss]) -> list[Json]:
    """Returns the messages for a turn's instructions and items, as `MessageWriter.write_messages` describes."""
    return _MessageWriter(turn, profile, losses).write_messages(turn.instructions)


class _MessageWriter(MessageWriter):
    _NEW_ASSISTANT: ClassVar[Json] = {"role": "assistant", "content": ""}

    def add_system(self, _role: str, text: str) -> None:
        """Adds a system message: the API has no developer's."""
        super().add_system("system", text)

    def _add_user_content(self, parts: Sequence[Json], index: int) -> None:
        self._append_message("user", lower_parts(parts, f"input[{index}].content", self._losses))

    def _build_call(self, index: int, item: Item) -> Json:
        arguments = parse_past_arguments(
            item["arguments"], f"input[{index}].arguments", self._losses, max_bytes=self._profile.max_tool_args_bytes
        )
        return {"id": item["call_id"], "function": {"name": item["name"], "arguments": arguments}}

    def _add_outputs(self, outputs: Sequence[tuple[int, int]]) -> None:
        moved_media: list[MessageContent] = []
        for index, call in outputs:
            self._add_output(index, self._items[call]["name"], moved_media)
        if moved_media:
            images = [image for content in moved_media for image in content.images]
            self._append_message("user", MessageContent("\n".join(content.text for content in moved_media), images))

    def _append_message(self, role: str, content: MessageContent, **fields: str) -> None:
        message: Json = {"role": role, "content": content.text, **fields}
        if content.images:
            message["images"] = content.images
        self._messages.append(message)

    def _add_output(self, index: int, name: str, moved_media: list[MessageContent]) -> None:
        """Writes a tool message. Images that the upstream does not accept in one are appended to `moved_media`."""
        item = self._items[index]
        output, call_id = item["output"], item["call_id"]
        self._losses += find_output_losses(item, index)
        if isinstance(output, str):
            content = MessageContent(output, [])
        else:
            content = lower_parts(output, f"input[{index}].output", self._losses)
        if content.images and not self._profile.media_in_tool_messages:
            moved_media.append(MessageContent(f"Media from the output of tool call {call_id}:", content.images))
            self._losses.append(Loss("input", "tool media moved to a user message"))
            content = MessageContent("\n".join(filter(None, (content.text, MOVED_MEDIA_NOTICE))), [])
        self._append_message("tool", content, tool_name=name, tool_call_id=call_id)

    def _replay_reasoning(self, assistant: MessageBuilder, reasoning_items: Sequence[Item]) -> None:
        self._write_reasoning(assistant, reasoning_items, "thinking")
