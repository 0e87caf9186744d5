"""Every tool parser returns the same for a text, however the text is split."""

import inspect
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.support.tool_texts import TEXTS, parse, two_cuts
from translation.chat.upstream.call_formats import CALL_FORMATS
from translation.parsers.tools import PARSER_FACTORIES
from translation.representation.profile import TOOL_PARSERS, Profile

EACH_TEXT = pytest.mark.parametrize(
    ("parser", "text"), [(parser, text) for parser, texts in TEXTS.items() for text in texts]
)


def test_every_parser_has_a_name_for_the_configuration_a_format_for_prompts_and_test_texts() -> None:
    assert (*PARSER_FACTORIES,) == TOOL_PARSERS
    assert CALL_FORMATS.keys() == PARSER_FACTORIES.keys()
    assert TEXTS.keys() == PARSER_FACTORIES.keys()


@pytest.mark.parametrize("key", ["tool_parser", "text_tool_calls"])
def test_the_description_of_a_key_names_every_parser(key: str) -> None:
    source = inspect.getsource(Profile)
    description = source.partition(f"    {key}: Name = ")[2].split('"""')[1]
    assert [name for name in TOOL_PARSERS if f"`{name}`" not in description] == []


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
