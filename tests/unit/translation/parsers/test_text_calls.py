"""Calls in an answer's text, as items."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.support.event_grammar import EventGrammar
from tests.unit.support.translator_drivers import collect, counting_ids
from translation.errors import ProtocolViolation
from translation.parsers.text_calls import RejectedCall, TextCallDecoder
from translation.parsers.tools import PARSER_FACTORIES, ParserOutput, PlainText
from translation.representation.events import Delta, Event, Finished, Noted, Started
from translation.representation.item_writer import ItemWriter
from translation.representation.json_types import Json

FLAT: Json = {
    "type": "function",
    "name": "f",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
}
NESTED: Json = {"type": "function", "function": {"name": "g"}}
TOOLS = (FLAT, NESTED, {"type": "web_search"})

F = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
G = '<tool_call>{"name": "g"}</tool_call>'
UNKNOWN = '<tool_call>{"name": "h", "arguments": {"a": 1}}</tool_call>'
UNFIT = '<tool_call>{"name": "f", "arguments": {"a": "one"}}</tool_call>'
WHY_UNFIT = 'arguments.a: "one" is not of type "integer"'
MADE_F = ("f", '{"a": 1}')
MADE_G = ("g", "{}")


class Answer:
    """The parsed answer, read to its end."""

    def __init__(self, pieces: Iterable[str], *, truncated: bool = False, tools: tuple[Json, ...] = TOOLS, **more: Any):
        new_id = counting_ids()
        writer = ItemWriter(new_id)
        self.calls = TextCallDecoder(writer, new_id, PARSER_FACTORIES["hermes"], tools, **more)
        self.events: list[Event] = [Started("m")]
        for piece in pieces:
            self.events += self.calls.feed(piece)
        self.events += self.calls.finish(truncated=truncated)
        self.events += writer.close("incomplete" if truncated else "completed")
        self.events.append(Finished("stop"))
        grammar = EventGrammar()
        grammar.check(self.events)
        grammar.finish()

    @property
    def items(self) -> list[object]:
        """Returns messages as their text, calls as (name, arguments), and `incomplete` for incomplete ones."""
        found: list[object] = []
        for item in collect(self.events):
            if item["type"] == "message":
                found.append("".join(part["text"] for part in item["content"]))
            elif item["status"] == "completed":
                found.append((item["name"], item["arguments"]))
            else:
                found.append((item["name"], item["arguments"], item["status"]))
        return found

    @property
    def argument_deltas(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Delta) and event.part_index is None]


VALIDATIONS = pytest.mark.parametrize("validation", ["drop", "report"])


def test_calls_are_items_between_messages() -> None:
    answer = Answer([f"One. {F}\n{G} Two."])
    assert answer.items == ["One. ", MADE_F, MADE_G, " Two."]
    assert (answer.calls.has_calls, answer.calls.rejected) == (True, [])


def test_every_call_has_an_id_of_its_own() -> None:
    items = collect(Answer([F, F]).events)
    assert [item["call_id"] for item in items] == ["call_1", "call_2"]
    assert [item["id"] for item in items] == ["fc_1", "fc_2"]


def test_an_answer_without_calls_is_its_text() -> None:
    answer = Answer(["1 < 2 ", "<t"])
    assert answer.items == ["1 < 2 <t"]
    assert not answer.calls.has_calls


def test_empty_text_gives_no_events() -> None:
    answer = Answer(["\n\n"])
    assert answer.items == []
    assert not answer.calls.has_calls


PIECES = ('<tool_call>{"name": "f", "arguments": {', '"a"', ": 1", "}}</tool_call>")


def test_arguments_of_a_call_that_may_be_left_out_wait_for_its_end() -> None:
    assert Answer(PIECES).argument_deltas == ['{"a": 1}']


def test_arguments_are_streamed_where_every_call_is_sent() -> None:
    assert Answer(PIECES, validation="report").argument_deltas == ["{", '"a"', ": 1", "}"]


def test_a_call_of_no_tool_is_left_out() -> None:
    answer = Answer([f"One. {UNKNOWN}{F}"])
    assert answer.items == ["One. ", MADE_F]
    assert answer.calls.rejected == [RejectedCall("h", "there is no such tool")]


def test_a_call_that_does_not_fit_is_left_out() -> None:
    answer = Answer([G, UNFIT, F, " text"])
    assert answer.items == [MADE_G, MADE_F, " text"]
    assert answer.calls.rejected == [RejectedCall("f", WHY_UNFIT)]


def test_a_bad_call_in_a_list_leaves_the_good_one() -> None:
    bad, good = ('{"name": "f", "arguments": {"a": "x"}}', '{"name": "f", "arguments": {"a": 1}}')
    answer = Answer([f"<tool_call>[{bad}, {good}]</tool_call>"])
    assert answer.items == [MADE_F]
    assert answer.calls.rejected == [RejectedCall("f", 'arguments.a: "x" is not of type "integer"')]


@pytest.mark.parametrize(
    ("text", "made", "why"),
    [(UNFIT, ("f", '{"a": "one"}'), WHY_UNFIT), (UNKNOWN, ("h", '{"a": 1}'), "there is no such tool")],
    ids=["does not fit", "no such tool"],
)
def test_a_call_that_does_not_fit_may_be_sent_and_reported(text: str, made: Any, why: str) -> None:
    answer = Answer([text, F], validation="report")
    assert answer.items == [made, MADE_F]
    assert answer.calls.rejected == [RejectedCall(made[0], why)]


@VALIDATIONS
def test_arguments_that_are_too_long_are_reported(validation: str) -> None:
    long = '<tool_call>{"name": "g", "arguments": {"a": "éééééé'
    answer = Answer([long, "é", 'é"}}</tool_call>', F], validation=validation, max_args_bytes=20)
    assert answer.calls.rejected == [RejectedCall("g", "the arguments are longer than 20 bytes")]
    assert answer.items == ([MADE_F] if validation == "drop" else [("g", '{"a": "éééééééé"}'), MADE_F])


def test_arguments_may_be_as_long_as_allowed() -> None:
    assert Answer([F], max_args_bytes=8).items == [MADE_F]


def test_an_answer_of_only_invalid_calls_gets_no_added_text() -> None:
    answer = Answer([UNKNOWN])
    assert answer.items == []
    assert answer.calls.rejected == [RejectedCall("h", "there is no such tool")]
    assert not answer.calls.has_calls


def test_dropped_calls_are_reported() -> None:
    answer = Answer([UNKNOWN, F])
    noted = [event.facts for event in answer.events if isinstance(event, Noted)]
    assert noted == [{"tool_warnings": [{"name": "h", "why": "there is no such tool"}]}]
    assert not any(isinstance(event, Noted) for event in Answer([F]).events)


@pytest.mark.parametrize("truncated", [False, True])
def test_a_block_whose_call_never_began_is_no_call(truncated: bool) -> None:
    answer = Answer(['<tool_call>{"nam'], truncated=truncated)
    assert answer.items == []
    assert answer.calls.rejected == [RejectedCall("", "the text ends in the middle of a call")]


BEGUN = '<tool_call>{"name": "f", "arguments": {"a'


@VALIDATIONS
def test_a_call_that_was_cut_at_the_limit_of_tokens_is_incomplete(validation: str) -> None:
    answer = Answer([F, BEGUN], truncated=True, validation=validation)
    assert answer.items == [MADE_F, ("f", '{"a', "incomplete")]
    assert answer.calls.rejected == []


@VALIDATIONS
def test_a_call_that_the_model_did_not_finish_is_reported(validation: str) -> None:
    answer = Answer([F, BEGUN], validation=validation)
    assert answer.items == ([MADE_F] if validation == "drop" else [MADE_F, ("f", '{"a', "incomplete")])
    assert answer.calls.rejected == [RejectedCall("f", "the text ends in the middle of a call")]


@VALIDATIONS
def test_a_call_that_was_cut_after_it_became_too_long_is_reported(validation: str) -> None:
    answer = Answer([BEGUN, "bc"], truncated=True, validation=validation, max_args_bytes=3)
    assert answer.items == ([] if validation == "drop" else [("f", '{"abc', "incomplete")])
    assert answer.calls.rejected == [RejectedCall("f", "the arguments are longer than 3 bytes")]


def test_a_call_of_no_tool_that_was_cut_is_left_out() -> None:
    answer = Answer([BEGUN.replace('"f"', '"h"')], truncated=True)
    assert answer.items == []
    assert answer.calls.rejected == [RejectedCall("h", "there is no such tool")]


def test_a_call_that_was_whole_at_the_limit_of_tokens_is_a_call() -> None:
    assert Answer(['<tool_call>{"name": "f", "arguments": {"a": 1}}'], truncated=True).items == [MADE_F]


def test_a_block_that_is_no_call_is_left_out() -> None:
    answer = Answer([f"One. <tool_call>oops</tool_call>{F}"])
    assert answer.items == ["One. ", MADE_F]
    assert answer.calls.rejected == [RejectedCall("", "there is no call in it")]


def test_a_block_that_is_no_call_may_be_sent_as_text() -> None:
    answer = Answer([f"<tool_call>oops</tool_call>{F}"], validation="report")
    assert answer.items == ["<tool_call>oops</tool_call>", MADE_F]
    assert answer.calls.rejected == [RejectedCall("", "there is no call in it")]


def test_a_call_that_breaks_in_the_middle_is_incomplete_where_faults_are_reported() -> None:
    broken = '<tool_call>{"name": "f", "arguments": {"a": x}}</tool_call>'
    answer = Answer([broken, F], validation="report")
    assert answer.items == [("f", '{"a": x', "incomplete"), MADE_F]
    assert answer.calls.rejected == [RejectedCall("f", "a call is not valid JSON")]


def test_blank_text_of_any_parser_is_dropped() -> None:
    class Blank:
        def feed(self, text: str) -> list[ParserOutput]:
            return [PlainText(text)]

        def finish(self) -> list[ParserOutput]:
            return []

    new_id = counting_ids()
    calls = TextCallDecoder(ItemWriter(new_id), new_id, Blank, TOOLS)
    assert calls.feed(" \n") == []


TEXT = f"One.\n{F}{UNKNOWN} Two. {G}\n"


@given(cuts=st.lists(st.integers(0, len(TEXT)), max_size=8))
def test_the_text_may_be_split_anywhere(cuts: list[int]) -> None:
    places = sorted({0, len(TEXT), *cuts})
    answer = Answer([TEXT[start:end] for start, end in pairwise(places)])
    assert answer.items == ["One.\n", MADE_F, " Two. ", MADE_G]


def test_an_answer_has_no_more_calls_than_models_make() -> None:
    assert len(Answer([F] * 1000).calls.rejected) == 0
    with pytest.raises(ProtocolViolation, match="more than 1000 tool calls"):
        Answer([F] * 1001)
