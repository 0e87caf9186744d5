"""The lines of pages: every character of a page is in one of them, and none is too wide."""

import time

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


@pytest.mark.parametrize(
    ("text", "pattern", "numbers"),
    [
        pytest.param("one\nTwo\ntwo", "TWO", [1, 2], id="another case"),
        pytest.param("two two", "two", [0, 0], id="twice in a line"),
        pytest.param("aaaa", "aa", [0, 0], id="matches do not overlap"),
        pytest.param("one\n\n\ntwo", "one two", [0], id="over empty lines"),
        pytest.param("\n\none\n\ntwo\n\n", "one", [2], id="behind empty lines"),
        pytest.param("\n\none\n\ntwo\n\n", "two", [4], id="between empty lines"),
        pytest.param("\n\n", "one", [], id="empty lines alone"),
        pytest.param("    one\n\ttwo", " two ", [1], id="behind an indentation"),
        pytest.param("one  \xa0 two", "one\ttwo", [0], id="other blanks in a line"),
        pytest.param("onetwo", "one two", [], id="no blank"),
        pytest.param("one two", "onetwo", [], id="a blank"),
        pytest.param("a.b", "a.B", [0], id="signs of patterns are themselves"),
        pytest.param("axb", "a.b", [], id="signs of patterns stand for nothing else"),
        pytest.param("x\nStraße\nSTRASSE", "straẞe", [1, 2], id="a letter whose capital is two"),
        pytest.param("İİİ\nx\nİstanbul", "İSTANBUL", [2], id="a letter whose small form is longer"),
        pytest.param(
            "x\n\u03a6\u03a9\u03a3 \u03c6\u03c9\u03c2", "\u03c6\u03c9\u03c3", [1, 1], id="the forms of a letter"
        ),
        pytest.param("one", "", [], id="no text"),
        pytest.param("one  two", " \n ", [], id="blanks"),
        pytest.param("", "one", [], id="no page"),
        pytest.param("one", "one two", [], id="more than the page"),
    ],
)
def test_a_text_is_found_on_the_lines_where_it_begins(text: str, pattern: str, numbers: list[int]) -> None:
    assert list(split_lines(text).find_lines(pattern)) == numbers


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        pytest.param("a " * 15_000 + "b", "a " * 450_000, id="words"),
        pytest.param("a" * 79 + " b" * 15_000 + " c", ("a" * 79 + " b" * 410) * 1000, id="words that begin alike"),
        pytest.param(" " * 200_000, " " * 900_000, id="blanks"),
        pytest.param("ß " * 15_000 + "b", "ß " * 450_000, id="letters whose capital is two"),
    ],
)
def test_a_long_text_costs_no_more_than_the_page(pattern: str, text: str) -> None:
    """The product of both lengths would be minutes."""
    read = split_lines(text)
    start = time.thread_time()
    assert not list(read.find_lines(pattern))
    assert time.thread_time() - start < 5
