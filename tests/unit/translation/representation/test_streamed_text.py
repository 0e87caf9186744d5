"""A streamed text is compared with a final value without being kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translation.representation.streamed_text import FinalRest, StreamedText
from translation.text_forms import WHITE_SPACE


def stream(*pieces: str) -> StreamedText:
    text = StreamedText()
    for piece in pieces:
        text.add(piece)
    return text


@given(st.lists(st.text()), st.text())
def test_the_rest_of_a_final_value_follows_the_streamed_text(pieces: list[str], rest: str) -> None:
    found = stream(*pieces).find_rest("".join(pieces) + rest)
    assert found == FinalRest(rest if rest.strip(WHITE_SPACE) else "")


@given(st.text(" \n\tab", max_size=30), st.text(" \n\tab", max_size=30))
def test_white_space_that_was_trimmed_makes_no_difference(streamed: str, rest: str) -> None:
    found = stream(streamed).find_rest((streamed + rest).strip())
    assert found is not None
    assert "".join(found.text.split()) == "".join(rest.split())


@pytest.mark.parametrize("space", WHITE_SPACE, ids=ascii)
@pytest.mark.parametrize("more", ["", " there"])
def test_white_space_before_the_text_makes_no_difference(space: str, more: str) -> None:
    for beginning in (space, f"{space}\n", f"\n{space}"):
        found = stream(beginning, "Hello").find_rest(f"Hello{more}")
        assert found is not None
        assert found.text.split() == more.split()


@pytest.mark.parametrize("final", ["", "The", "The answe", "The question is", "the answer"])
def test_another_text_has_no_rest(final: str) -> None:
    assert stream("The ", "answer").find_rest(final) is None


def test_it_does_not_grow_with_the_text() -> None:
    text = stream(*["word "] * 10_000)
    assert text.size == 50_000
    assert text.ink_size == 40_000
    assert not hasattr(text, "__dict__")


class Counts:
    """Counts further texts elsewhere, as the compiled core does."""

    def take(self, owner: StreamedText) -> tuple[int, int, int]:
        elsewhere = stream("The ", "answer")
        return elsewhere.size, elsewhere.ink_size, elsewhere.checksum


def test_what_counts_elsewhere_is_asked_before_a_comparison_and_before_more_text() -> None:
    text = stream("The ")
    text.live_counts = Counts()
    assert text.find_rest("The answer is") == FinalRest(" is")
    assert text.live_counts is None
    text = stream("The ")
    text.live_counts = Counts()
    text.add(" is")
    assert text.find_rest("The answer is 42") == FinalRest(" 42")
