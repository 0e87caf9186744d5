"""Messages of instructing roles are merged as a profile requires, and reasoning goes where the profile wants it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from translation.lowering.message_writer import MessageWriter
from translation.lowering.text_parts import MessageBuilder
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import DEFAULT_PROFILE
from translation.representation.turn import Turn

THOUGHT: Item = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}]}
UNREADABLE: Item = {"type": "reasoning", "content": []}


class Writer(MessageWriter):
    """Writes instructions and reasoning only."""

    def _add_user_content(self, parts: Sequence[Json], index: int) -> None:
        raise NotImplementedError

    def _replay_reasoning(self, assistant: MessageBuilder, reasoning_items: Sequence[Item]) -> None:
        raise NotImplementedError

    def _build_call(self, index: int, item: Item) -> Json:
        raise NotImplementedError

    def _add_outputs(self, outputs: Sequence[tuple[int, int]]) -> None:
        raise NotImplementedError

    def add_user(self) -> None:
        self._messages.append({"role": "user", "content": "Hi"})

    def build_answer(self, *reasoning: Item) -> Json:
        assistant = MessageBuilder({"role": "assistant", "content": "Hi"})
        self._write_reasoning(assistant, reasoning, "thinking")
        return assistant.build()


def new_writer(losses: list[Loss], **profile: str) -> Writer:
    return Writer(Turn(model="m", items=[]), replace(DEFAULT_PROFILE, **profile), losses)  # type: ignore[arg-type]


SYSTEM = {
    "keep": (["system:a", "developer:b", "user:Hi", "system:c"], 0),
    "merge_leading": (["system:a\n\nb", "user:Hi", "system:c"], 0),
    "merge_all": (["system:a\n\nb\n\nc", "user:Hi"], 1),
}


@pytest.mark.parametrize(("merging", "written"), SYSTEM.items(), ids=SYSTEM)
def test_system_messages_are_merged_as_the_profile_requires(merging: str, written: tuple[list[str], int]) -> None:
    losses: list[Loss] = []
    writer = new_writer(losses, system_messages=merging)
    writer.add_system("system", "a")
    writer.add_system("developer", "b")
    writer.add_user()
    writer.add_system("system", "c")
    messages = [f"{message['role']}:{message['content']}" for message in writer.finish()]
    assert (messages, len(losses)) == written


def test_a_late_system_message_becomes_the_first_one() -> None:
    losses: list[Loss] = []
    writer = new_writer(losses, system_messages="merge_all")
    writer.add_user()
    writer.add_system("system", "a")
    assert [message["role"] for message in writer.finish()] == ["system", "user"]
    assert losses == [Loss("input", "system messages merged")]


REASONING = {
    "none": ({"content": "Hi"}, 1),
    "think_tags": ({"content": "<think>\nHm.\n</think>\n\nHi"}, 0),
    "reasoning": ({"content": "Hi", "thinking": "Hm."}, 0),
}


@pytest.mark.parametrize(("replay", "written"), REASONING.items(), ids=REASONING)
def test_reasoning_is_placed_as_the_profile_requires(replay: str, written: tuple[Json, int]) -> None:
    losses: list[Loss] = []
    message = new_writer(losses, replay_reasoning=replay).build_answer(THOUGHT)
    assert (message, len(losses)) == ({"role": "assistant", **written[0]}, written[1])


def test_reasoning_without_readable_text_is_a_loss() -> None:
    losses: list[Loss] = []
    assert new_writer(losses, replay_reasoning="reasoning").build_answer(UNREADABLE)["content"] == "Hi"
    assert losses == [Loss("input", "reasoning dropped")]
