"""Items are written in order, each by the method for its type, and messages by their role."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from translation.errors import InvalidRequest
from translation.lowering.turn_writer import TurnWriter
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import DEFAULT_PROFILE
from translation.representation.turn import Turn


class Recorder(TurnWriter):
    """Records what it is told to write."""

    def __init__(self, items: list[Item], losses: list[Loss], **profile: str) -> None:
        super().__init__(Turn(model="m", items=items), replace(DEFAULT_PROFILE, **profile), losses)  # type: ignore[arg-type]
        self.written: list[str] = []

    def close_assistant(self) -> None:
        self.written.append("close")

    def add_system(self, role: str, text: str) -> None:
        self.written.append(f"{role}: {text}")

    def _add_user_content(self, parts: Sequence[Json], index: int) -> None:
        self.written.append(f"user at {index}: {parts[0]['text']}")

    def _add_assistant_text(self, text: str) -> None:
        self.written.append(f"assistant: {text}")

    def _add_reasoning(self, index: int, _item: Item) -> None:
        self.written.append(f"reasoning at {index}")

    def _add_call(self, _index: int, item: Item) -> None:
        self.written.append(f"call {item['call_id']}")


def message(role: str, text: str, **fields: str) -> Item:
    return {"type": "message", "role": role, "content": [{"type": "text", "text": text}], **fields}


def call_output(call_id: str) -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": ""}


def test_items_are_written_in_order_and_the_assistant_is_closed_before_others() -> None:
    items = [
        message("user", "a"),
        {"type": "reasoning"},
        message("assistant", "b", phase="final"),
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        call_output("c"),
    ]
    losses: list[Loss] = []
    recorder = Recorder(items, losses)
    recorder.write_items()
    assert recorder.written == [
        *("close", "user at 0: a", "reasoning at 1", "assistant: b", "call c"),
        *("close", "close"),
    ]
    assert losses == [Loss("input", "phase dropped")]


DEVELOPER_ROLES = {"developer": "developer: a", "system": "system: a", "user": "user at 0: a"}


@pytest.mark.parametrize(("role", "written"), DEVELOPER_ROLES.items(), ids=DEVELOPER_ROLES)
def test_a_developer_message_has_the_role_that_the_profile_requires(role: str, written: str) -> None:
    recorder = Recorder([message("developer", "a")], [], developer_role=role)
    recorder.write_items()
    assert recorder.written == ["close", written, "close"]


SETTING: Item = {"type": "configuration_update"}
ENDS: dict[str, tuple[list[Item], str | None]] = {
    "the assistant's": ([message("user", "a"), message("assistant", "b")], None),
    "the assistant's, before settings": ([message("assistant", "b"), SETTING], None),
    "a call's": ([message("assistant", "b"), {"type": "function_call", "call_id": "c"}], None),
    "the user's": ([message("assistant", "b"), message("user", "")], "input[1].content"),
    "the system's, before settings": ([message("assistant", "b"), message("system", ""), SETTING], "input[1].content"),
}


@pytest.mark.parametrize(("items", "param"), ENDS.values(), ids=ENDS)
def test_a_last_message_that_is_not_sent_after_the_assistants_is_refused(items: list[Item], param: str | None) -> None:
    writer = Recorder(items, [])
    if param is None:
        writer.check_end()
        return
    with pytest.raises(InvalidRequest, match="would continue") as refusal:
        writer.check_end()
    assert refusal.value.param == param


@pytest.mark.parametrize("item", [{"type": "hologram"}, call_output("c"), {}], ids=["type", "output", "no type"])
def test_an_unknown_type_and_an_output_without_its_call_are_refused(item: Item) -> None:
    with pytest.raises(InvalidRequest):
        Recorder([item], []).write_items()
