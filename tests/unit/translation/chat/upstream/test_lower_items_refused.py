"""Late instructions, and items without a chat form."""

import pytest

from tests.unit.support.items import IMAGE, call, message, output, user
from translation.chat.upstream.lower_items import lower_items
from translation.errors import InvalidRequest, Unrepresentable
from translation.representation.json_types import Item
from translation.representation.loss import Loss
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.representation.turn import Turn


def test_late_instructions_are_moved_to_the_front_if_the_profile_says_so() -> None:
    losses: list[Loss] = []
    messages = lower_items(Turn("m", [user("a"), message("system", "b")]), Profile(system_messages="merge_all"), losses)
    assert [each["role"] for each in messages] == ["system", "user"]
    assert losses == [Loss("input", "system messages merged")]


REFUSED: dict[str, tuple[list[Item], type[InvalidRequest], str, str]] = {
    "a call without its output": ([user("a"), call("x")], InvalidRequest, "input[1].call_id", "'x'"),
    "a call whose output is before it": ([output("x"), call("x")], InvalidRequest, "input[0].call_id", "'x'"),
    "an output without its call": ([user("a"), output("x")], InvalidRequest, "input[1].call_id", "'x'"),
    "two outputs for one call": ([call("x"), output("x"), output("x")], InvalidRequest, "input[2].call_id", "'x'"),
    "an output without an id": (
        [{"type": "function_call_output", "output": ""}],
        InvalidRequest,
        "input[0].call_id",
        "None",
    ),
    "a reference": ([{"type": "item_reference", "id": "x"}], InvalidRequest, "input[0]", "not stored"),
    "a compaction": ([{"type": "compaction"}], Unrepresentable, "input[0]", "compaction"),
    "an item without a type": ([{}], Unrepresentable, "input[0]", "''"),
    "an image by id": (
        [user({"type": "input_image", "file_id": "x"})],
        Unrepresentable,
        "input[0].content[0].file_id",
        "send",
    ),
    "a file by id": (
        [user({"type": "input_file", "file_id": "x"})],
        Unrepresentable,
        "input[0].content[0].file_id",
        "send",
    ),
    "a file by URL": (
        [user({"type": "input_file", "file_url": "x"})],
        Unrepresentable,
        "input[0].content[0].file_url",
        "send",
    ),
    "an unknown part": ([user("a", {"type": "hologram"})], Unrepresentable, "input[0].content[1]", "hologram"),
    "an image in a system message": ([message("system", IMAGE)], Unrepresentable, "input[0].content[0]", "input_image"),
    "a text file that is no text": (
        [user({"type": "input_file", "file_data": "data:text/plain;base64,/w=="})],
        InvalidRequest,
        "input[0].content[0].file_data",
        "UTF-8",
    ),
    "a text file that is no base64": (
        [user({"type": "input_file", "file_data": "data:text/plain;base64,é"})],
        InvalidRequest,
        "input[0].content[0].file_data",
        "UTF-8",
    ),
}


@pytest.mark.parametrize(("items", "error", "param", "words"), REFUSED.values(), ids=REFUSED)
def test_unsupported_values_are_refused_by_name(
    items: list[Item], error: type[InvalidRequest], param: str, words: str
) -> None:
    with pytest.raises(error, match=words) as refused:
        lower_items(Turn("m", items), DEFAULT_PROFILE, [])
    assert refused.value.param == param


def test_items_that_only_change_settings_are_losses() -> None:
    losses: list[Loss] = []
    update: Item = {"type": "configuration_update", "reasoning": {"effort": "low"}}
    assert lower_items(Turn("m", [user("a"), update]), Profile(), losses) == lower_items(
        Turn("m", [user("a")]), Profile(), []
    )
    assert losses == [Loss("input[1]", "configuration_update left out")]
