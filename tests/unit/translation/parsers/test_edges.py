"""Line breaks around reasoning."""

import pytest

from translation.parsers.edges import EdgeTrimmer

CASES: dict[str, tuple[list[tuple[str, str]], list[str]]] = {
    "both ends of reasoning and the start of the text after it": (
        [("reasoning", "\na"), ("reasoning", "\n"), ("text", "\n"), ("text", "\nb\n")],
        ["a", "", "", "b\n"],
    ),
    "a line break inside reasoning comes with what follows it": (
        [("reasoning", "a\n"), ("reasoning", "\n"), ("reasoning", "b")],
        ["a", "", "\n\nb"],
    ),
    "reasoning that starts with line breaks in several pieces": (
        [("reasoning", "\n"), ("reasoning", "\r\n"), ("reasoning", "a")],
        ["", "", "a"],
    ),
    "text without reasoning before it": ([("text", "\n\na\n")], ["\n\na\n"]),
    "other spaces": ([("reasoning", " a "), ("text", " b")], [" a ", " b"]),
    "reasoning that begins anew": (
        [("reasoning", "a\n"), ("text", "b"), ("reasoning", "\nc"), ("text", "\nd")],
        ["a", "b", "c", "d"],
    ),
    "a summary like reasoning": ([("summary", "\na\n"), ("text", "\nb")], ["a", "b"]),
    "a refusal like text": ([("reasoning", "a\n"), ("refusal", "\nno")], ["a", "no"]),
}


@pytest.mark.parametrize(("runs", "expected"), CASES.values(), ids=CASES)
def test_line_breaks_are_stripped_at_the_edges_only(runs: list[tuple[str, str]], expected: list[str]) -> None:
    trimmer = EdgeTrimmer()
    assert [trimmer.feed(noun, text) for noun, text in runs] == expected


def test_line_breaks_before_something_else_are_dropped() -> None:
    trimmer = EdgeTrimmer()
    assert trimmer.feed("reasoning", "a\n") == "a"
    trimmer.end_reasoning()
    assert trimmer.feed("reasoning", "\nb") == "b"
