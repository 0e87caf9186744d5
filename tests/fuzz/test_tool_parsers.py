"""Tool parsers on generated texts: output in order, the same for every split, in linear time."""

import time
from datetime import timedelta
from itertools import pairwise
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.support.event_grammar import EventGrammar
from tests.unit.support.tool_texts import TEXTS, parse
from tests.unit.support.translator_drivers import counting_ids
from translation.parsers.text_calls import TextCallDecoder
from translation.parsers.tools import PARSER_FACTORIES, CallArguments, ParserOutput, PlainText
from translation.representation.events import Event, Finished, Started
from translation.representation.item_writer import ItemWriter
from translation.representation.json_types import Json

PIECES = [
    *("<tool_call>", "</tool_call>", "<function=f>", "</function>", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "```json\n"),
    *(
        '{"name": "f"',
        ', "arguments": ',
        '"parameters": {"a": 1}',
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        '"',
        "'",
        "\\",
        ",",
        ":",
    ),
    *("f(", "a=1", "<|python_tag|>", "<", "</", "`", " ", "\n", "é", "\u2028", "\x00", "1e5", "null", "true", "x"),
]
ANSWERS = st.lists(st.sampled_from([*PIECES, *(text for texts in TEXTS.values() for text in texts)]), max_size=20)
TOOLS: list[Json] = [
    {"type": "function", "name": "f", "parameters": {"properties": {"a": {"type": "integer"}}}},
    {"type": "function", "name": "g"},
]
LONG = 200_000
A_WHILE_S = 20.0
"""The limit for 200,000 pieces on a busy machine. With quadratic time it would be hours."""


@pytest.mark.parametrize("parser", PARSER_FACTORIES)
@settings(max_examples=150, deadline=timedelta(seconds=10))
@given(answer=ANSWERS.map("".join), cuts=st.lists(st.integers(0, 300), max_size=10))
def test_any_text_is_parsed_in_order_and_the_same_however_split(parser: str, answer: str, cuts: list[int]) -> None:
    places = sorted({0, len(answer), *(cut for cut in cuts if cut < len(answer))})
    whole = parse(parser, [answer])
    assert parse(parser, [answer[start:end] for start, end in pairwise(places)]) == whole
    assert parse(parser, answer) == whole


@pytest.mark.parametrize("parser", PARSER_FACTORIES)
@settings(max_examples=60, deadline=timedelta(seconds=10))
@given(pieces=ANSWERS, truncated=st.booleans(), validation=st.sampled_from(["drop", "report"]))
def test_any_text_becomes_items_in_order(
    parser: str, pieces: list[str], truncated: bool, validation: Literal["drop", "report"]
) -> None:
    new_id = counting_ids()
    writer = ItemWriter(new_id)
    calls = TextCallDecoder(writer, new_id, PARSER_FACTORIES[parser], TOOLS, validation=validation, max_args_bytes=60)
    events: list[Event] = [Started("m")]
    for piece in pieces:
        events += calls.feed(piece)
    events += calls.finish(truncated=truncated)
    events += [*writer.close(), Finished("stop")]
    EventGrammar().check(events)


@pytest.mark.parametrize("parser", PARSER_FACTORIES)
@settings(max_examples=50, deadline=timedelta(seconds=10))
@given(answer=st.text(max_size=200))
def test_text_without_marks_is_text(parser: str, answer: str) -> None:
    if not set(answer) & set("<[{`"):
        assert parse(parser, answer) == ([PlainText(answer)] if answer.strip() else [])


ENDLESS: dict[str, tuple[str, str, str]] = {
    "a long argument": ("hermes", '<tool_call>{"name": "f", "arguments": {"a": "', "x"),
    "a long argument before the name": ("hermes", '<tool_call>{"arguments": {"a": "', "x"),
    "an argument in a string": ("hermes", '<tool_call>{"name": "f", "arguments": "', "x"),
    "a long name": ("hermes", '<tool_call>{"name": "', "x"),
    "deep arguments": ("hermes", '<tool_call>{"name": "f", "arguments": {"a": ', "["),
    "escapes": ("hermes", '<tool_call>{"name": "f", "arguments": {"a": "', "\\"),
    "a number": ("hermes", '<tool_call>{"name": "f", "arguments": {"a": ', "1"),
    "blocks": ("hermes", "", "<tool_call>"),
    "blocks of nothing": ("hermes", "", "<tool_call>[[</tool_call>"),
    "brackets in a block": ("hermes", "<tool_call>", "[{"),
    "values in a block that are no calls": ("hermes", "<tool_call>", '{"a":1}'),
    "a block that is spoiled": ("hermes", "<tool_call>{", "</tool_call "),
    "tags that are none": ("hermes", "", "<tool_cal"),
    "strings that nobody closed": ("hermes", "", '<tool_call>["a</tool_call>","'),
    "spaces": ("hermes", "", " "),
    "spaces after a call": ("hermes", '<tool_call>{"name": "f"}', " "),
    "a function's name": ("llama", "<function=", "x"),
    "functions": ("llama", "", "<function=f>{}"),
    "functions that are not closed": ("llama", "<function=f>", "<function=f>"),
    "objects": ("llama3_json", "", '{"name": "f"};'),
    "tags": ("llama3_json", "", "<|python_tag|>"),
    "a list": ("json", "[", '{"name": "f"},'),
    "fences": ("json", "", "```"),
    "an object that may be a call": ("json", '{"arguments": {"a": "', "x"),
    "markers": ("mistral", "", "[TOOL_CALLS]"),
    "names": ("mistral", "", "[TOOL_CALLS]f[CALL_ID]x[ARGS]"),
    "a spoiled list": ("mistral", "[TOOL_CALLS][x", "[TOOL_"),
    "a name": ("pythonic", "[", "f"),
    "calls": ("pythonic", "[f()", ", f(a=1)"),
    "a string": ("pythonic", '[f(a="', "\\"),
    "brackets": ("pythonic", "[f(a=", "["),
}


@pytest.mark.parametrize("at_once", [False, True], ids=["one character at a time", "at once"])
@pytest.mark.parametrize(("parser", "beginning", "again"), ENDLESS.values(), ids=ENDLESS)
def test_the_work_grows_with_the_text_alone(parser: str, beginning: str, again: str, at_once: bool) -> None:
    text = beginning + again * (LONG // 4 // len(again))
    pieces = [text] if at_once else text
    began = time.thread_time()
    parse(parser, pieces)
    assert time.thread_time() - began < A_WHILE_S / 4


def test_a_long_argument_is_parsed_one_character_at_a_time() -> None:
    arguments = '{"a": "' + "x" * LONG + '"}'
    text = f'<tool_call>{{"name": "f", "arguments": {arguments}}}</tool_call>'
    began = time.thread_time()
    said: list[ParserOutput] = parse("hermes", text)
    assert time.thread_time() - began < A_WHILE_S
    assert said[1] == CallArguments(arguments)
