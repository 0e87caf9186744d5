"""Splits the text of one reply as its profile says."""

from translation.parsers.tagged_text import TaggedTextReader
from translation.representation.profile import Profile

TAGS = Profile(parsing_format="think_tags")
OPEN = Profile(parsing_format="think_tags", think_open=True)
LEADING = Profile(parsing_format="leading_think_tags")


def test_text_waits_for_the_first_tag() -> None:
    reader = TaggedTextReader(TAGS)
    assert reader.interrupt() == []
    assert reader.feed("a") + reader.feed("b") == []
    assert reader.feed("</think>c") == [("reasoning", "ab"), ("text", "c")]
    assert reader.feed("d") == [("text", "d")]


def test_separate_reasoning_means_that_the_tag_was_removed() -> None:
    reader = TaggedTextReader(OPEN)
    assert reader.expect_no_reasoning() == []
    assert reader.feed("a") == [("text", "a")]


def test_leading_tags_are_over_when_the_answer_begins() -> None:
    reader = TaggedTextReader(LEADING)
    assert not reader.is_over
    assert reader.feed("<think>a</think>") == [("reasoning", "a")]
    assert reader.is_over
    assert reader.interrupt() == []
