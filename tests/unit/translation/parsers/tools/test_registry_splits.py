"""Every tool parser returns the same for a text, however the text is split."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.support.tool_texts import TEXTS, parse, two_cuts
from translation.parsers.tools import PARSER_FACTORIES

EACH_TEXT = pytest.mark.parametrize(
    ("parser", "text"), [(parser, text) for parser, texts in TEXTS.items() for text in texts]
)


def test_every_parser_has_test_texts() -> None:
    assert TEXTS.keys() == PARSER_FACTORIES.keys()


@EACH_TEXT
def test_a_text_may_be_cut_in_two_anywhere(parser: str, text: str) -> None:
    whole = parse(parser, [text])
    for pieces in two_cuts(text):
        assert parse(parser, pieces) == whole


@EACH_TEXT
def test_a_text_may_arrive_one_character_at_a_time(parser: str, text: str) -> None:
    assert parse(parser, text) == parse(parser, [text])


@EACH_TEXT
@settings(max_examples=25)
@given(cuts=st.lists(st.integers(0, 200), max_size=8))
def test_a_text_may_be_cut_into_any_pieces(parser: str, text: str, cuts: list[int]) -> None:
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    assert parse(parser, [text[start:end] for start, end in pairwise(places)]) == parse(parser, [text])
