"""The text of one reply, split as its profile says."""

from translation.parsers.tagged_text import TaggedTextReader
from translation.representation.profile import Profile

TAGS = Profile(parsing_format="think_tags")
OPEN = Profile(parsing_format="think_tags", think_open=True)
LEADING = Profile(parsing_format="leading_think_tags")


def test_log_probabilities_wait_with_their_text() -> None:
    one, two, three = ({"token": str(number)} for number in range(3))
    reader = TaggedTextReader(TAGS)
    assert reader.release() == reader.finish() == []
    assert reader.feed("a", [one]) + reader.feed("b", [two]) == []
    assert reader.feed("</think>c", [three]) == [
        ("reasoning", "ab", [one, two, three]),
        ("text", "c", [one, two, three]),
    ]
    assert reader.feed("d") == [("text", "d", None)]


def test_reasoning_apart_from_the_text_has_taken_the_tag_with_it() -> None:
    reader = TaggedTextReader(OPEN)
    assert reader.expect_no_reasoning() == []
    assert reader.feed("a") == [("text", "a", None)]


def test_leading_tags_are_over_when_the_answer_begins() -> None:
    reader = TaggedTextReader(LEADING)
    assert not reader.is_over
    assert reader.feed("<think>a</think>") == [("reasoning", "a", None)]
    assert reader.is_over
    assert reader.release() == reader.finish() == []
