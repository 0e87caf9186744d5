"""Think tags in text."""

import re
from itertools import pairwise
from time import thread_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from translation.parsers.think_tags import ThinkParser

Runs = list[tuple[str, str]]


def parse(pieces: list[str], *, open_at_start: bool | None = False) -> Runs:
    """Returns the segments of a text in pieces, with neighbours of one noun joined."""
    parser = ThinkParser(open_at_start=open_at_start)
    runs: Runs = []
    for noun, text in [*(run for piece in pieces for run in parser.feed(piece)), *parser.finish()]:
        if runs and runs[-1][0] == noun:
            runs[-1] = (noun, runs[-1][1] + text)
        else:
            runs.append((noun, text))
    return runs


CLOSED: dict[str, tuple[str, Runs]] = {
    "text without tags is text": ("a < b > c", [("text", "a < b > c")]),
    "<think>": ("<think>a</think>b", [("reasoning", "a"), ("text", "b")]),
    "<thinking>": ("<thinking>a</thinking>b", [("reasoning", "a"), ("text", "b")]),
    "<reasoning>": ("<reasoning>a</reasoning>b", [("reasoning", "a"), ("text", "b")]),
    "<thought>": ("<thought>a</thought>b", [("reasoning", "a"), ("text", "b")]),
    "text before the tag stays text": ("a<think>b</think>c", [("text", "a"), ("reasoning", "b"), ("text", "c")]),
    "reasoning may come several times": (
        "<think>a</think>b<think>c</think>d",
        [("reasoning", "a"), ("text", "b"), ("reasoning", "c"), ("text", "d")],
    ),
    "a tag of another name does not close": (
        "<think>a</thought>b</think>c",
        [("reasoning", "a</thought>b"), ("text", "c")],
    ),
    "a repeated opening tag opens nothing": ("<think><think>a</think>b", [("reasoning", "a"), ("text", "b")]),
    "unterminated reasoning goes on to the end": ("<think>a", [("reasoning", "a")]),
    "a closing tag without an opening one is taken out": ("a</think>b", [("text", "ab")]),
    "half a tag at the end is text": ("a<thin", [("text", "a<thin")]),
    "half a closing tag at the end is reasoning": ("<think>a</thin", [("reasoning", "a</thin")]),
    "tags with nothing between them say nothing": ("<think></think>", []),
    "tags in upper case": ("<THINK>a</Think>b", [("reasoning", "a"), ("text", "b")]),
    "tags of similar letters": ("<thin\u212a>a", [("text", "<thin\u212a>a")]),
    "other tags are text": ("<b>a</b>", [("text", "<b>a</b>")]),
}

OPEN: dict[str, tuple[str, Runs]] = {
    "the reply starts as reasoning": ("a</think>b", [("reasoning", "a"), ("text", "b")]),
    "any closing tag ends what the template opened": ("a</thought>b", [("reasoning", "a"), ("text", "b")]),
    "the template's tag may be repeated": ("<think>a</think>b", [("reasoning", "a"), ("text", "b")]),
    "reasoning that is never closed": ("a", [("reasoning", "a")]),
    "later reasoning has tags of its own": (
        "a</think>b<thought>c</think>",
        [("reasoning", "a"), ("text", "b"), ("reasoning", "c</think>")],
    ),
}


UNKNOWN: dict[str, tuple[str, Runs]] = {
    "a closing tag without an opening one ends reasoning": ("a</think>b", [("reasoning", "a"), ("text", "b")]),
    "a closing tag in upper case": ("a</THOUGHT>b", [("reasoning", "a"), ("text", "b")]),
    "nothing before a closing tag": ("</think>b", [("text", "b")]),
    "text before an opening tag stays text": ("a<think>b</think>c", [("text", "a"), ("reasoning", "b"), ("text", "c")]),
    "a later closing tag is taken out": ("<think>a</think>b</think>c", [("reasoning", "a"), ("text", "bc")]),
    "text without tags is text": ("a < b", [("text", "a < b")]),
    "half a tag at the end is text": ("a</thin", [("text", "a</thin")]),
}


@pytest.mark.parametrize(("text", "runs"), UNKNOWN.values(), ids=UNKNOWN)
def test_text_before_a_tag_waits_where_the_template_is_unknown(text: str, runs: Runs) -> None:
    assert parse([text], open_at_start=None) == runs
    assert parse(list(text), open_at_start=None) == runs


def test_text_that_waits_is_released_as_text() -> None:
    parser = ThinkParser(open_at_start=None)
    assert parser.feed("a<th") == []
    assert parser.release() == [("text", "a")]
    assert parser.feed("ink>b") == [("reasoning", "b")]
    assert parser.release() == parser.finish() == []


@pytest.mark.parametrize(("text", "runs"), CLOSED.values(), ids=CLOSED)
def test_tags_part_reasoning_from_text(text: str, runs: Runs) -> None:
    assert parse([text]) == runs


@pytest.mark.parametrize(("text", "runs"), OPEN.values(), ids=OPEN)
def test_a_template_may_have_opened_the_tag(text: str, runs: Runs) -> None:
    assert parse([text], open_at_start=True) == runs


@pytest.mark.parametrize("held", ["<", "</", "<th", "<think", "</reasoning"])
def test_only_a_possible_tag_is_buffered(held: str) -> None:
    parser = ThinkParser()
    assert parser.feed(f"a{held}") == [("text", "a")]
    assert parser.feed("!") == [("text", f"{held}!")]


@pytest.mark.parametrize("plain", ["<x", "a < b", "<think ", "<<b"])
def test_text_that_cannot_become_a_tag_is_not_buffered(plain: str) -> None:
    assert ThinkParser().feed(plain) == [("text", plain)]


PIECES = st.sampled_from(
    ["<think>", "</think>", "<thought>", "</thought>", "<", "</", "thi", "nk>", ">", "a", "\n", "é"]
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)


@given(TEXTS, st.lists(st.integers(0, 80)), st.sampled_from([False, True, None]))
@example("<think>a</think>b", list(range(20)), False)
def test_the_text_may_be_split_anywhere(text: str, cuts: list[int], open_at_start: bool | None) -> None:
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:end] for start, end in pairwise(places)]
    assert parse(pieces, open_at_start=open_at_start) == parse([text], open_at_start=open_at_start)


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "<thi", "nk>", "</", "a"])).map("".join),
    st.sampled_from([False, True, None]),
)
def test_nothing_is_lost_but_tags(text: str, open_at_start: bool | None) -> None:
    said = "".join(run for _, run in parse([text], open_at_start=open_at_start))
    assert said == re.sub("</?think>", "", text)


@pytest.mark.parametrize("tag", ["<think>", "</think>", "<think></think>", "[THINK]"])
def test_many_tags_at_once_take_linear_time(tag: str) -> None:
    started = thread_time()
    segments = ThinkParser().feed(tag * 100_000 + "x")
    assert thread_time() - started < 3.0  # to copy the rest for each tag would take half a minute
    assert "".join(text for _, text in segments) == "x"
