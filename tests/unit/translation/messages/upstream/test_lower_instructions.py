"""Instructions and refused items as a request of the Messages API."""

import pytest

from tests.unit.support.items import PNG, call, file, message, output, user
from tests.unit.translation.messages.upstream.item_blocks import HIDDEN, THINKING, entry, lower, result, text, use
from translation.errors import InvalidRequest, Unrepresentable
from translation.messages.upstream.lower_items import open_turn_has_thinking
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile


def test_instructions_are_the_system_prompt() -> None:
    items = [message("system", "b", "c"), message("developer", "d"), message("system", " "), user("e")]
    (system, spoken), losses = lower(*items, instructions="a")
    assert system == ["a", "b\nc", "d"]
    assert spoken == [entry("user", text("e"))]
    assert losses == []


def test_blank_instructions_are_none() -> None:
    assert lower(user("a"), instructions=" ")[0].system == []


def test_later_system_messages_join_the_prompt_where_the_profile_says_so() -> None:
    (system, spoken), losses = lower(user("a"), message("system", "b"), profile=Profile(system_messages="merge_all"))
    assert (system, spoken) == (["b"], [entry("user", text("a"))])
    assert losses == [Loss("input", "system messages merged")]


def test_a_developer_is_a_user_where_the_profile_says_so() -> None:
    (system, spoken), _ = lower(message("developer", "a"), profile=Profile(developer_role="user"))
    assert (system, spoken) == ([], [entry("user", text("a"))])


FILES: dict[str, tuple[Json, Json]] = {
    "text": (
        file("a", "text/csv", filename="a.csv"),
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a"}, "title": "a.csv"},
    ),
    "PDF": (
        file("a", "application/pdf"),
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "YQ=="}},
    ),
    "an address": (
        {"type": "input_file", "file_url": "https://a/b.pdf"},
        {"type": "document", "source": {"type": "url", "url": "https://a/b.pdf"}, "title": "b.pdf"},
    ),
    "an address with a name beside it": (
        {"type": "input_file", "file_url": "https://a/b.pdf", "filename": "c.pdf"},
        {"type": "document", "source": {"type": "url", "url": "https://a/b.pdf"}, "title": "c.pdf"},
    ),
    "an address that names no file": (
        {"type": "input_file", "file_url": "https://a/"},
        {"type": "document", "source": {"type": "url", "url": "https://a/"}},
    ),
    "a JPEG by its other name": (
        {"type": "input_image", "image_url": "data:image/jpg;base64,AAAA"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "AAAA"}},
    ),
}


@pytest.mark.parametrize(("part", "block"), FILES.values(), ids=FILES)
def test_files_are_documents(part: Json, block: Json) -> None:
    assert lower(user(part))[0].messages == [entry("user", block)]


REFUSED: dict[str, tuple[list[Item], type[InvalidRequest], str]] = {
    "a call without its output": ([user("a"), call("c1")], InvalidRequest, "input[1].call_id"),
    "an output without its call": ([user("a"), output("c1")], InvalidRequest, "input[1].call_id"),
    "an output before its call": ([output("c1"), call("c1"), output("c1")], InvalidRequest, "input[0].call_id"),
    "an unknown item": ([user("a"), {"type": "computer_call"}], Unrepresentable, "input[1]"),
    "a stored image": ([user({"type": "input_image", "file_id": "f"})], Unrepresentable, "input[0].content[0]"),
    "a stored file": ([user({"type": "input_file", "file_id": "f"})], Unrepresentable, "input[0].content[0]"),
    "an unreadable image": (
        [user({"type": "input_image", "image_url": "data:image/tiff;base64,AAAA"})],
        Unrepresentable,
        "input[0].content[0].image_url",
    ),
    "an unreadable file": (
        [user(file("a", "application/msword"))],
        Unrepresentable,
        "input[0].content[0].file_data",
    ),
    "a file without a media type": (
        [user({"type": "input_file", "file_data": "AAAA"})],
        InvalidRequest,
        "input[0].content[0].file_data",
    ),
    "sound": ([user({"type": "input_audio", "input_audio": {}})], Unrepresentable, "input[0].content[0]"),
    "a system that shows images": (
        [message("system", {"type": "input_image", "image_url": PNG})],
        Unrepresentable,
        "input[0].content[0]",
    ),
}


@pytest.mark.parametrize(("items", "refusal", "param"), REFUSED.values(), ids=REFUSED)
def test_unsupported_items_are_refused_by_name(items: list[Item], refusal: type[InvalidRequest], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        lower(*items)
    assert type(refused.value) is refusal
    assert refused.value.param == param


TURNS: dict[str, tuple[list[Json], bool]] = {
    "nothing is under way": ([entry("user", text("a"))], True),
    "a turn with thoughts": (
        [entry("user", text("a")), entry("assistant", THINKING, use("c1")), entry("user", result("c1"))],
        True,
    ),
    "a turn whose first step had thoughts": (
        [
            entry("user", text("a")),
            entry("assistant", HIDDEN, use("c1")),
            entry("user", result("c1")),
            entry("assistant", use("c2")),
            entry("user", result("c2")),
        ],
        True,
    ),
    "a turn without": (
        [entry("user", text("a")), entry("assistant", use("c1")), entry("user", result("c1"))],
        False,
    ),
    "nobody has asked": ([entry("assistant", use("c1")), entry("user", result("c1"))], False),
    "a user message beside a result": (
        [entry("user", text("a")), entry("assistant", use("c1")), entry("user", result("c1"), text("b"))],
        True,
    ),
}


@pytest.mark.parametrize(("messages", "expected"), TURNS.values(), ids=TURNS)
def test_a_turn_thinks_from_its_start_or_not_at_all(messages: list[Json], expected: bool) -> None:
    assert open_turn_has_thinking(messages) is expected
