"""Volatile lines of a system prompt are moved behind everything that an upstream may have cached."""

from typing import Any

import pytest

from translation.hygiene.volatile_lines import (
    move_volatile_lines,
    move_volatile_lines_of_turn,
    remove_lines,
    remove_lines_of_system,
    remove_lines_of_turn,
)
from translation.representation.json_types import Item, Json
from translation.representation.turn import Turn

PATTERNS = ["x-billing-header:*", "Now: ?:??"]
HEADER = "x-billing-header: version=1; nonce=5c1;"
MOVED = f"<system>\n{HEADER}\n</system>"


def message(role: str, *texts: str) -> Item:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text} for text in texts]}


def turn(instructions: str | None, *items: Item) -> Turn:
    return Turn("m", list(items), instructions=instructions)


SPLITS = {
    "first line": (f"{HEADER}\nBe short.", "Be short."),
    "first paragraph": (f"{HEADER}\n\nBe short.\n\n\nBe kind.\n", "Be short.\n\n\nBe kind.\n"),
    "indented, with a carriage return": (f"  {HEADER}\r\nBe short.", "Be short."),
    "paragraph in the middle": (f"Be short.\n\n{HEADER}\n\nBe kind.", "Be short.\n\nBe kind."),
    "line before a blank line": (f"Be short.\n{HEADER}\n\nBe kind.", "Be short.\n\nBe kind."),
    "line in the middle": (f"Be short.\n{HEADER}\nBe kind.", "Be short.\nBe kind."),
    "last line": (f"Be short.\n\n{HEADER}\n", "Be short."),
    "only line": (HEADER, None),
}


@pytest.mark.parametrize(("instructions", "rest"), SPLITS.values(), ids=SPLITS)
def test_a_volatile_line_is_moved_from_the_instructions_to_the_newest_message(
    instructions: str, rest: str | None
) -> None:
    moved = move_volatile_lines_of_turn(turn(instructions, message("user", "Hi", "there")), PATTERNS)
    assert moved == turn(rest, message("user", "Hi", f"there\n\n{MOVED}"))


def test_prompts_with_different_lines_have_the_same_prefix() -> None:
    first, second = (
        move_volatile_lines_of_turn(turn(f"x-billing-header: {nonce}\n\nBe short.", message("user", "Hi")), PATTERNS)
        for nonce in ("a", "b")
    )
    assert first.instructions == second.instructions
    assert first.items != second.items


UNCHANGED: dict[str, Turn] = {
    "no instructions": turn(None, message("user", HEADER)),
    "no such line": turn("Be short.", message("user", HEADER)),
    "only a part of a line": turn(f"The line {HEADER} is not one.", message("user", "Hi")),
    "another form": turn("Now: 10:30\nNow: later", message("user", "Hi")),
    "a later system message": turn("Be short.", message("user", "Hi"), message("system", HEADER)),
    "nowhere to move it": turn(HEADER, message("system", HEADER), message("assistant", "Hi")),
    "an output that is not text": turn(HEADER, {"type": "function_call_output", "call_id": "c", "output": None}),
}


@pytest.mark.parametrize("given", UNCHANGED.values(), ids=UNCHANGED)
def test_a_turn_without_such_a_line_stays_the_same_object(given: Turn) -> None:
    assert move_volatile_lines_of_turn(given, PATTERNS) is given


def test_leading_system_messages_are_searched_too() -> None:
    systems = [
        message("system", "Now: 1:30", "Be short."),
        message("developer", HEADER),
        message("developer", "Be kind."),
    ]
    moved = move_volatile_lines_of_turn(turn(None, *systems, message("user", "Hi")), PATTERNS)
    text = f"Hi\n\n<system>\nNow: 1:30\n{HEADER}\n</system>"
    assert moved.items == [message("system", "Be short."), systems[2], message("user", text)]


def output(value: Any) -> Item:
    return {"type": "function_call_output", "call_id": "c", "output": value}


IMAGE: Json = {"type": "input_image", "image_url": "data:"}
PLACES: dict[str, tuple[list[Item], list[Item]]] = {
    "an output": ([message("user", "Hi"), output("4")], [message("user", "Hi"), output(f"4\n\n{MOVED}")]),
    "an empty output": ([output("")], [output(MOVED)]),
    "an output of parts": ([output([IMAGE])], [output([IMAGE, {"type": "input_text", "text": MOVED}])]),
    "an output without parts": ([output([])], [output([{"type": "input_text", "text": MOVED}])]),
    "a system message of the client": (
        [message("user", "Hi"), message("system", "Be kind.")],
        [message("user", "Hi"), message("system", f"Be kind.\n\n{HEADER}")],
    ),
    "before an answer that is continued": (
        [message("user", "Hi"), {"type": "reasoning", "summary": []}, message("assistant", "Oh")],
        [message("user", f"Hi\n\n{MOVED}"), {"type": "reasoning", "summary": []}, message("assistant", "Oh")],
    ),
}


@pytest.mark.parametrize(("given", "expected"), PLACES.values(), ids=PLACES)
def test_the_newest_entry_that_is_not_the_models_has_the_line(given: list[Item], expected: list[Item]) -> None:
    assert move_volatile_lines_of_turn(turn(HEADER, *given), PATTERNS).items == expected


def test_messages_of_a_chat_request_are_changed_in_the_same_way() -> None:
    image: Json = {"type": "image_url", "image_url": {"url": "data:"}}
    systems: list[Json] = [
        {"role": "system", "content": f"{HEADER}\nBe short."},
        {"role": "system", "content": [{"type": "text", "text": "Be kind."}]},
    ]
    rest: list[Json] = [{"role": "system", "content": "Be short."}, systems[1]]
    assert move_volatile_lines([*systems, {"role": "user", "content": "Hi"}], PATTERNS) == [
        *rest,
        {"role": "user", "content": f"Hi\n\n{MOVED}"},
    ]
    assert move_volatile_lines([*systems, {"role": "user", "content": [image]}], PATTERNS) == [
        *rest,
        {"role": "user", "content": [image, {"type": "text", "text": MOVED}]},
    ]
    without_text: list[Json] = [{"role": "system", "content": None}, {"role": "user", "content": "Hi"}]
    for unchanged in (rest, without_text):
        assert move_volatile_lines(unchanged, PATTERNS) is unchanged


def test_a_pattern_that_begins_with_a_wildcard_is_tried_on_every_line() -> None:
    moved = move_volatile_lines_of_turn(turn("It is now 10:30.\nBe short.", message("user", "Hi")), ["*now*"])
    assert moved.instructions == "Be short."


@pytest.mark.parametrize(("instructions", "rest"), SPLITS.values(), ids=SPLITS)
def test_a_line_that_no_model_needs_is_removed(instructions: str, rest: str | None) -> None:
    user = message("user", "Hi", HEADER)
    assert remove_lines_of_turn(turn(instructions, user), PATTERNS) == turn(rest, user)
    assert remove_lines_of_turn(turn(None, message("system", instructions), user), PATTERNS) == turn(
        None, *([message("system", rest)] if rest else []), user
    )
    chat: list[Json] = [{"role": "system", "content": instructions}, {"role": "user", "content": HEADER}]
    assert remove_lines(chat, PATTERNS) == [*([{"role": "system", "content": rest}] if rest else []), chat[1]]
    assert remove_lines_of_system(instructions, PATTERNS) == (rest or "")
    blocks: list[Json] = [{"type": "text", "text": instructions}, {"type": "text", "text": "a"}]
    kept = [{"type": "text", "text": text} for text in (rest, "a") if text]
    assert remove_lines_of_system(blocks, PATTERNS) == kept


UNTOUCHED: dict[str, Turn] = {
    **UNCHANGED,
    "nowhere to move it": turn("Be short.", message("system", "a"), message("assistant", HEADER)),
    "an output that is not text": turn(None, {"type": "function_call_output", "call_id": "c", "output": HEADER}),
    "nothing else": turn(HEADER, message("system", HEADER)),
}


@pytest.mark.parametrize("given", UNTOUCHED.values(), ids=UNTOUCHED)
def test_a_turn_of_which_nothing_is_removed_stays_the_same_object(given: Turn) -> None:
    assert remove_lines_of_turn(given, PATTERNS) is given


def test_messages_of_which_nothing_is_removed_stay_the_same_object() -> None:
    for unchanged in ([{"role": "user", "content": HEADER}], [{"role": "system", "content": HEADER}]):
        assert remove_lines(unchanged, PATTERNS) is unchanged
    assert remove_lines_of_system("Be short.", PATTERNS) == "Be short."


def test_a_line_is_removed_where_nothing_could_be_moved() -> None:
    given = turn(f"{HEADER}\nBe short.", message("assistant", "Hi"))
    assert remove_lines_of_turn(given, PATTERNS) == turn("Be short.", message("assistant", "Hi"))
