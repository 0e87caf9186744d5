"""Faults that vLLM's Hermes parser has in release 0.32, and ours has not."""

import json

import pytest

from tests.unit.support.tool_texts import parse, summarize_items, two_cuts
from translation.parsers.tools import CallArguments, CallEnded, CallStarted, MalformedCall, ParserOutput, PlainText

CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
F = ("f", {"a": 1})


def test_text_after_and_between_calls_is_preserved() -> None:
    assert summarize_items("hermes", f"{CALL} between {CALL} after") == [F, " between ", F, " after"]


def test_a_partial_tag_is_sent_as_text_at_the_end() -> None:
    assert parse("hermes", ["1 < 2 ", "<t"]) == [PlainText("1 < 2 <t")]


def test_arguments_before_the_name_are_the_arguments_and_no_more() -> None:
    text = '<tool_call>{"arguments": {"a": 1}, "name": "f"}</tool_call>'
    assert parse("hermes", text) == [CallStarted("f"), CallArguments('{"a": 1}'), CallEnded()]


def test_a_call_that_was_cut_is_the_same_streamed_and_whole() -> None:
    text = '<tool_call>\n{"name": "f", "arguments": {"a": "b'
    whole: list[ParserOutput] = [
        CallStarted("f"),
        CallArguments('{"a": "b'),
        MalformedCall(text, "the text ends in the middle of a call", truncated=True),
    ]
    assert parse("hermes", [text]) == whole
    assert all(parse("hermes", pieces) == whole for pieces in two_cuts(text))


def test_arguments_in_a_string_are_taken_out_of_it_once() -> None:
    arguments = json.dumps({"a": 'a "word"'})
    text = f'<tool_call>{{"name": "f", "arguments": {json.dumps(arguments)}}}</tool_call>'
    assert parse("hermes", text) == [CallStarted("f"), CallArguments(arguments), CallEnded()]


@pytest.mark.parametrize("key", ["arguments", "parameters"])
def test_a_closing_tag_in_a_string_does_not_end_the_call(key: str) -> None:
    text = f'<tool_call>{{"name": "f", "{key}": {{"a": "</tool_call>"}}}}</tool_call> after'
    assert summarize_items("hermes", text) == [("f", {"a": "</tool_call>"}), " after"]


def test_bad_json_in_one_call_leaves_the_others_alone() -> None:
    said = parse("hermes", [f"{CALL}<tool_call>{{oops}}</tool_call>{CALL}"])
    called: list[ParserOutput] = [CallStarted("f"), CallArguments('{"a": 1}'), CallEnded()]
    assert said[:3] == said[4:] == called
    assert said[3] == MalformedCall("<tool_call>{oops}</tool_call>", "a call is not valid JSON", truncated=False)


def test_line_breaks_between_a_thought_and_a_call_are_no_text() -> None:
    assert parse("hermes", ["\n", "\n", CALL]) == [CallStarted("f"), CallArguments('{"a": 1}'), CallEnded()]


def test_a_name_and_arguments_in_one_piece_are_sent_one_after_the_other() -> None:
    piece = '{"name": "f", "arguments": {'
    assert parse("hermes", ["<tool_call>", piece])[:2] == [CallStarted("f"), CallArguments("{")]
