"""Lowers Responses items to chat messages: consecutive items of the assistant become one message.

Does not know tools or parameters.
"""

from collections.abc import Sequence
from typing import Final

from translation.chat.reasoning import (
    DETAILS_FIELD,
    EXTRA_CONTENT,
    PLAIN_FIELD_OF_DETAILS,
    REASONING_TEXT_FIELDS,
    collect_call_data,
    find_replay_field,
    is_chat_detail,
    remove_unsigned_copies,
)
from translation.chat.upstream.lower_parts import lower_content, lower_parts
from translation.lowering.message_writer import MOVED_MEDIA_NOTICE, MessageWriter
from translation.lowering.text_parts import MessageBuilder, find_only_text
from translation.lowering.turn_writer import WriteItem
from translation.lowering.unsupported import find_output_losses
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

_EMPTY_REASONING_FIELDS: Final = {
    "none": REASONING_TEXT_FIELDS[0],
    "think_tags": REASONING_TEXT_FIELDS[0],
    DETAILS_FIELD: PLAIN_FIELD_OF_DETAILS,
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
        field = find_replay_field(profile)
        added[_EMPTY_REASONING_FIELDS.get(field, field)] = ""
    if profile.call_signatures == "placeholder" and EXTRA_CONTENT not in calls[0]:
        # Of parallel calls only the first is signed.
        message = {**message, "tool_calls": [{**calls[0], EXTRA_CONTENT: _PLACEHOLDER_SIGNATURE}, *calls[1:]]}
    return {**added, **message} if added else message


def lower_items(turn: Turn, profile: Profile, losses: list[Loss]) -> list[Json]:
    """Returns the chat messages for a turn's instructions and items, as `MessageWriter.write_messages` describes."""
    if not turn.instructions and (text := find_only_text(turn.items)) is not None:
        return [{"role": "user", "content": text}]  # the writer's result, without its steps, most of which do nothing
    return _MessageWriter(turn, profile, losses).write_messages(turn.instructions)


class _MessageWriter(MessageWriter):
    def __init__(self, turn: Turn, profile: Profile, losses: list[Loss]) -> None:
        super().__init__(turn, profile, losses)
        self._requires_fields = profile.empty_reasoning or profile.call_signatures == "placeholder"
        """Whether assistant messages with calls may need more fields (`add_required_fields`)."""
        self._call_data = collect_call_data(turn.items) if "reasoning" in turn.item_types else {}
        """Call id -> opaque data that the upstream sent with the call, and needs back."""

    def _build_item_writers(self) -> dict[str, WriteItem]:
        custom = {"custom_tool_call": self._add_call, "custom_tool_call_output": self._check_output}
        return super()._build_item_writers() | custom

    def _add_user_content(self, parts: Sequence[Json], index: int) -> None:
        self._messages.append({"role": "user", "content": lower_content(parts, index, self._losses)})

    def _build_call(self, _index: int, item: Item) -> Json:
        if item["type"] == "function_call":
            function = {"name": item["name"], "arguments": item["arguments"] or "{}"}
            call = {"id": item["call_id"], "type": "function", "function": function}
        else:
            custom = {"name": item["name"], "input": item["input"]}
            call = {"id": item["call_id"], "type": "custom", "custom": custom}
        if (data := self._call_data.get(item["call_id"])) is not None:
            call[EXTRA_CONTENT] = data
        return call

    def _finish_assistant(self, assistant: MessageBuilder) -> None:
        super()._finish_assistant(assistant)
        if self._open_calls and self._requires_fields:
            assistant.message |= add_required_fields(assistant.message, self._profile)

    def _add_outputs(self, outputs: Sequence[tuple[int, int]]) -> None:
        media: list[Json] = []
        for index, _ in outputs:
            self._add_tool(index, media)
        if media:
            self._messages.append({"role": "user", "content": media})

    def _add_tool(self, index: int, media: list[Json]) -> None:
        """Writes a tool message. Parts that the upstream does not accept in one are appended to `media`."""
        item = self._items[index]
        output, call_id = item["output"], item["call_id"]
        self._losses += find_output_losses(item, index)
        if isinstance(output, str):
            content: str | list[Json] = output
        else:
            parts = lower_parts(output, index, "output", self._losses)
            texts = [part["text"] for part in parts if part["type"] == "text"]
            media_parts = [part for part in parts if part["type"] != "text"]
            if media_parts and self._profile.media_in_tool_messages:
                content = parts
            elif media_parts:
                content = "\n".join([*texts, MOVED_MEDIA_NOTICE])
                media += [{"type": "text", "text": f"Media from the output of tool call {call_id}:"}, *media_parts]
                self._losses.append(Loss("input", "tool media moved to a user message"))
            else:
                content = "\n".join(texts)
        self._messages.append({"role": "tool", "tool_call_id": call_id, "content": content})

    def _replay_reasoning(self, assistant: MessageBuilder, reasoning_items: Sequence[Item]) -> None:
        field = find_replay_field(self._profile)
        details = [detail for item in reasoning_items for detail in item.get("details") or () if is_chat_detail(detail)]
        if field == DETAILS_FIELD and details:
            known = assistant.message.get(DETAILS_FIELD) or []
            assistant.message[DETAILS_FIELD] = remove_unsigned_copies([*known, *details])
            return
        self._write_reasoning(assistant, reasoning_items, PLAIN_FIELD_OF_DETAILS if field == DETAILS_FIELD else field)
