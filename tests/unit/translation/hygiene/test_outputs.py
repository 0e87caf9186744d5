"""Outputs of tools are cut to the configured length."""

from typing import Any

import pytest

from translation.hygiene.outputs import truncate_output, truncate_outputs
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss

CUT, LEFT_OUT = [Loss("p", "truncated")], [Loss("p", "media left out")]


def text(words: str, kind: str = "input_text") -> Json:
    return {"type": kind, "text": words}


def image(size: int) -> Json:
    return {"type": "input_image", "image_url": "x" * size}


def note(words: str, kind: str = "input_text") -> Json:
    return text(f"[{words} was left out: an output may have 20 bytes.]", kind)


@pytest.mark.parametrize("output", ["", "x" * 20, "é" * 10, [], [text("x" * 8), image(1)], [{"type": "odd"}]])
def test_outputs_within_the_limit_are_unchanged(output: Any) -> None:
    losses: list[Loss] = []
    assert truncate_output(output, 20, "p", losses) is output
    assert losses == []


LONG: dict[str, tuple[str | list[Json], str | list[Json], list[Loss]]] = {
    "a text": ("x" * 21, "x" * 9 + "[truncated]", CUT),
    "a text of characters that are more than a byte": ("é" * 11, "éééé[truncated]", CUT),
    "texts that are too long together": (
        [text("x" * 15), text("y" * 15), text("z")],
        [text("x" * 15), text("[truncated]")],
        CUT,
    ),
    "an image": ([text("a"), image(99), text("b")], [text("a"), note("An image of 110 bytes"), text("b")], LEFT_OUT),
    "a file": ([{"type": "input_file", "file_data": "x" * 99}], [note("A file of 109 bytes")], LEFT_OUT),
    "unknown what": ([{"type": "odd", "odd": ["x"], "more": "x" * 99}], [note("A part of 102 bytes")], LEFT_OUT),
    "an image of chat": (
        [{"type": "image_url", "image_url": {"url": "x" * 99}}],
        [note("An image of 108 bytes", "text")],
        LEFT_OUT,
    ),
    "a recording of chat": (
        [text("a", "text"), {"type": "input_audio", "input_audio": {"data": "x" * 99}}],
        [text("a", "text"), note("A recording of 110 bytes", "text")],
        LEFT_OUT,
    ),
}


@pytest.mark.parametrize(("output", "expected", "losses"), LONG.values(), ids=LONG)
def test_long_outputs_are_cut_or_replaced_by_a_note(output: Any, expected: Any, losses: list[Loss]) -> None:
    found: list[Loss] = []
    assert truncate_output(output, 20, "p", found) == expected
    assert found == losses


def test_a_limit_shorter_than_the_mark_leaves_the_mark() -> None:
    assert truncate_output("x" * 9, 5, "p", []) == "[truncated]"


def test_only_outputs_of_calls_are_cut() -> None:
    items: list[Item] = [
        {"type": "message", "role": "user", "content": [text("x" * 99)]},
        {"type": "function_call_output", "call_id": "a", "output": "x" * 99},
        {"type": "custom_tool_call_output", "call_id": "b", "output": "ok"},
    ]
    losses: list[Loss] = []
    cut = truncate_outputs(items, 20, losses)
    assert [cut[0], cut[2]] == [items[0], items[2]]
    assert cut[1] == {**items[1], "output": "x" * 9 + "[truncated]"}
    assert losses == [Loss("input[1].output", "truncated")]
    assert truncate_outputs(items, 100, losses) is items


def picture(source: str) -> Json:
    return {"type": "input_image", "image_url": source}


PIXEL = "data:image/png;base64,iVBORw0KGgo="
VALID: list[Json] = [
    picture(PIXEL),
    picture("DATA:image/png;charset=x; base64,iVBORw0KGgo"),
    picture("data:image/svg+xml,%3Csvg/%3E"),
    picture("https://example.com/a.png"),
    {"type": "input_image", "file_id": "file_1"},
    {"type": "image_url", "image_url": {"url": PIXEL}},
    {"type": "input_file", "file_data": "aGk\n="},
    {"type": "file", "file": {"file_data": "data:text/plain;base64,aGk="}},
    {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
]


@pytest.mark.parametrize("part", VALID)
def test_media_that_can_be_read_are_left_alone(part: Json) -> None:
    losses: list[Loss] = []
    output = [part]
    assert truncate_output(output, 1000, "p", losses) is output
    assert losses == []


INVALID: list[tuple[Json, Json]] = [
    (
        picture("data:image/png;base64,!!!"),
        text("[The image of this output cannot be read: its content is not base64.]"),
    ),
    (picture("data:image/png;base64,"), text("[The image of this output cannot be read: it is empty.]")),
    (picture("data:;base64,aGk="), text("[The image of this output cannot be read: its data URL has no media type.]")),
    (picture("data:image/png"), text("[The image of this output cannot be read: its data URL has no media type.]")),
    (picture("data:text/plain,hi"), text("[The image of this output cannot be read: its media type is text/plain.]")),
    (
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,a"}},
        text("[The image of this output cannot be read: its content is not base64.]", "text"),
    ),
    (
        {"type": "input_file", "file_data": "é"},
        text("[The file of this output cannot be read: its content is not base64.]"),
    ),
    (
        {"type": "input_audio", "input_audio": {"data": "?"}},
        text("[The recording of this output cannot be read: its content is not base64.]"),
    ),
]


@pytest.mark.parametrize(("part", "error"), INVALID)
def test_media_that_cannot_be_read_become_a_text(part: Json, error: Json) -> None:
    losses: list[Loss] = []
    assert truncate_output([part], 1000, "p", losses) == [error]
    assert losses == [Loss("p", "media replaced")]


def test_the_text_for_media_counts_too() -> None:
    losses: list[Loss] = []
    output = truncate_output([picture("data:image/png;base64,!!!")], 20, "p", losses)
    assert output == [text("[The imag[truncated]")]
    assert losses == [Loss("p", "media replaced"), Loss("p", "truncated")]


def test_items_whose_outputs_fit_are_the_same_list() -> None:
    items: list[Item] = [
        {"type": "function_call_output", "call_id": "a", "output": "x"},
        {"type": "function_call_output", "call_id": "b", "output": [text("x" * 8), image(1)]},
    ]
    losses: list[Loss] = []
    assert truncate_outputs(items, 100, losses) is items
    assert losses == []
