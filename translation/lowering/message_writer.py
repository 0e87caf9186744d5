"""Writes items to one list of messages with the roles system, user, assistant and tool."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final

from translation.lowering.reasoning import is_signature_only, render_past_reasoning
from translation.lowering.text_parts import MessageBuilder
from translation.lowering.turn_writer import TurnWriter
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

MOVED_MEDIA_NOTICE: Final = "(The media of this output are in the next user message.)"
"""The last text of a tool message whose media were moved."""

_SYSTEM_ROLES: Final = ("system", "developer")


class MessageWriter(TurnWriter):
    """Writes items to messages: consecutive items of the assistant become one message, and its tool messages follow it.

    A dialect with such messages writes the parts in which it differs: the content of messages, the calls, and the
    fields of reasoning.
    """

    _NEW_ASSISTANT: ClassVar[Json] = {"role": "assistant"}
    """The assistant message before anything is added to it."""

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

    def write_messages(self, instructions: str | None) -> list[Json]:
        """Returns the messages of the instructions and of all items of the turn. Losses are appended to `losses`.

        Calls, and the reasoning and text before them, become one assistant message. Its tool messages follow it
        directly, wherever the outputs are among the items. Raises what `write_items` raises.
        """
        if instructions:
            self.add_system("developer" if self._profile.developer_role == "developer" else "system", instructions)
        self.write_items()
        return self.finish()

    def finish(self) -> list[Json]:
        """Returns all messages. Call it once, after the last item."""
        if len(self._system_texts) > 1:
            self._messages[0]["content"] = "\n\n".join(self._system_texts)
        return self._messages

    def close_assistant(self) -> None:
        if self._assistant is not None:
            self._attach_reasoning(self._assistant)
            self._finish_assistant(self._assistant)
        elif self._pending_reasoning:
            self._losses.append(Loss("input", "reasoning dropped"))
            self._pending_reasoning = []
        if self._open_calls:
            self._add_outputs(sorted((self._turn.call_pairs.output_of(call), call) for call in self._open_calls))
            self._open_calls = []

    def _add_assistant_text(self, text: str) -> None:
        # No message may come between a call and its output, so the text joins the message with the calls.
        assistant = (self._assistant if self._open_calls else None) or self._open_assistant()
        assistant.add_paragraph("content", text)
        self._attach_reasoning(assistant)

    def _add_reasoning(self, _index: int, item: Item) -> None:
        if not is_signature_only(item):
            self._pending_reasoning.append(item)

    def _add_call(self, index: int, item: Item) -> None:
        assistant = self._assistant or self._open_assistant()
        self._attach_reasoning(assistant)
        assistant.message.setdefault("tool_calls", []).append(self._build_call(index, item))
        self._open_calls.append(index)

    def _open_assistant(self) -> MessageBuilder:
        if self._assistant is not None:
            self._finish_assistant(self._assistant)
        self._assistant = MessageBuilder({**self._NEW_ASSISTANT})
        self._messages.append(self._assistant.message)
        return self._assistant

    def _finish_assistant(self, assistant: MessageBuilder) -> None:
        assistant.build()
        self._assistant = None

    def _attach_reasoning(self, assistant: MessageBuilder) -> None:
        if self._pending_reasoning:
            reasoning_items, self._pending_reasoning = self._pending_reasoning, []
            self._replay_reasoning(assistant, reasoning_items)

    @abstractmethod
    def _replay_reasoning(self, assistant: MessageBuilder, reasoning_items: Sequence[Item]) -> None:
        """Adds reasoning items to an assistant message, in the field that the upstream reads them from."""

    @abstractmethod
    def _build_call(self, index: int, item: Item) -> Json:
        """Returns the entry of `tool_calls` for a call."""

    @abstractmethod
    def _add_outputs(self, outputs: Sequence[tuple[int, int]]) -> None:
        """Adds the tool messages of outputs, and then the media that those may not hold as a message of the user.

        `outputs` are pairs: the index of an output, and that of its call.
        """

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
