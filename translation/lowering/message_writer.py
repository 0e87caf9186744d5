"""Writes items to one list of messages with the roles system, user, assistant and tool."""

from collections.abc import Sequence
from typing import Final

from translation.lowering.reasoning import is_signature_only, render_past_reasoning
from translation.lowering.text_parts import MessageBuilder
from translation.lowering.turn_writer import TurnWriter
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

_SYSTEM_ROLES: Final = ("system", "developer")


class MessageWriter(TurnWriter):
    """Writes items to messages: consecutive items of the assistant become one message, and its tool messages follow it.

    An upstream dialect with such messages derives from this class, and writes the parts in which it differs: the
    content of messages, and the calls.
    """

    def __init__(self, turn: Turn, profile: Profile, losses: list[Loss]) -> None:
        super().__init__(turn, profile, losses)
        self._messages: list[Json] = []
        self._system_texts: list[str] = []
        """The texts of the first message, as long as system messages may be merged into it."""
        self._open_calls: list[int] = []
        """Indexes of the calls in the last message, whose tool messages are not written yet."""
        self._assistant: MessageBuilder | None = None
        """The last message, as long as calls may be added to it."""
        self._pending_reasoning: list[Item] = []
        """Reasoning items whose assistant message does not exist yet."""

    def add_system(self, role: str, text: str) -> None:
        """Adds a message of an instructing role, merged with those before it as the profile requires."""
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

    def _add_reasoning(self, _index: int, item: Item) -> None:
        if not is_signature_only(item):
            self._pending_reasoning.append(item)

    def finish(self) -> list[Json]:
        """Returns all messages. Call it once, after the last item."""
        if len(self._system_texts) > 1:
            self._messages[0]["content"] = "\n\n".join(self._system_texts)
        return self._messages

    def _write_reasoning(self, assistant: MessageBuilder, reasoning_items: Sequence[Item], field: str) -> None:
        """Adds the text of reasoning items to an assistant message: to `field`, or where the profile's
        `replay_reasoning` wants it instead."""
        texts = list(map(render_past_reasoning, reasoning_items))
        text = "\n\n".join(filter(None, texts))
        replay = self._profile.replay_reasoning
        if replay == "none" or not all(texts):
            self._losses.append(Loss("input", "reasoning dropped"))
        if replay == "none" or not text:
            return
        if replay == "think_tags":
            assistant.prepend("content", f"<think>\n{text}\n</think>\n\n")
        else:
            assistant.add_paragraph(field, text)
