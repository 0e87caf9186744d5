"""The lines of pages: every character of a page is in one of them, and none is too wide."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.tools.web_search.page_lines import number_lines, split_lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n\nb", ["a", "", "b"]),
        ("a\r\nb\x0bc\u2028d\x85e", ["a", "b", "c", "d", "e"]),
        ("    def f():", ["    def f():"]),
        (f"{'a' * 79} b", ["a" * 79, "b"]),
        ("a" * 200, ["a" * 80, "a" * 80, "a" * 40]),
        (f"{'雨' * 90} x", ["雨" * 80, f"{'雨' * 10} x"]),
        (f"  {'word ' * 30}", [f"  {'word ' * 15}word", f"{'word ' * 13}word"]),
    ],
)
def test_lines_break_at_blanks(text: str, lines: list[str]) -> None:
    assert list(split_lines(text).lines) == lines


@given(st.text(alphabet=st.sampled_from("ab \n\t雨🌧\u2028"), max_size=400))
def test_no_text_is_lost_and_each_word_is_found_on_its_line(text: str) -> None:
    read = split_lines(text)
    assert "".join("".join(read.lines).split()) == "".join(text.split())
    assert all(len(line) <= 100 for line in read.lines)
    assert len(read.starts) == len(read.lines)
    for number in read.find_lines("ab"):
        assert "ab" in read.lines[number] or read.joined[read.starts[number] :].lstrip().startswith("a")


def test_a_text_that_is_broken_into_lines_is_found_where_it_begins() -> None:
    read = split_lines(f"{'x' * 76} one two")
    assert read.lines == [f"{'x' * 76} one", "two"]
    assert list(read.find_lines("ONE  two")) == [0]
    assert list(read.find_lines("two")) == [1]
    assert number_lines(read.lines[1:], 1) == "L1: two"
