"""Calls in an answer's text, as items."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.support.driving import collect, counting_ids
from translation.parsers.text_calls import RejectedCall, TextCallDecoder
from translation.parsers.tools import PARSER_FACTORIES, ParserOutput, PlainText
from translation.representation.events import Delta, Event, Failed, Finished, ItemStarted, Noted, Started
from translation.representation.grammar import EventGrammar
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
    """One answer read to its end."""

    def __init__(self, pieces: Iterable[str], *, truncated: bool = False, tools: tuple[Json, ...] = TOOLS, **more: Any):
        new_id = counting_ids()
        writer = ItemWriter(new_id)
        self.calls = TextCallDecoder(writer, new_id, PARSER_FACTORIES["hermes"](), tools, **{"buffered": False, **more})
        self.events: list[Event] = [Started("m")]
        for piece in pieces:
            self.events += self.calls.feed(piece)
        self.events += self.calls.finish(truncated=truncated)
        if not isinstance(self.events[-1], Failed):
            self.events += writer.close("incomplete" if truncated else "completed")
            self.events.append(Finished("stop"))
        grammar = EventGrammar()
        grammar.check(self.events)
        grammar.finish()

    @property
    def items(self) -> list[object]:
        """Messages as their text, calls as (name, arguments), with `incomplete` where they are."""
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
    def failed(self) -> Failed | None:
        last = self.events[-1]
        return last if isinstance(last, Failed) else None


HELD = pytest.mark.parametrize("held", [False, True], ids=["streamed", "held"])


@HELD
def test_calls_are_items_between_messages(held: bool) -> None:
    answer = Answer([f"One. {F}\n{G} Two."], buffered=held)
    assert answer.items == ["One. ", MADE_F, MADE_G, " Two."]
    assert (answer.calls.has_calls, answer.calls.has_text, answer.calls.rejected) == (True, True, [])


@HELD
def test_every_call_has_an_id_of_its_own(held: bool) -> None:
    items = collect(Answer([F, F], buffered=held).events)
    assert [item["call_id"] for item in items] == ["call_1", "call_2"]
    assert [item["id"] for item in items] == ["fc_1", "fc_2"]


@HELD
def test_an_answer_without_calls_is_its_text(held: bool) -> None:
    answer = Answer(["1 < 2 ", "<t"], buffered=held)
    assert answer.items == ["1 < 2 <t"]
    assert (answer.calls.has_calls, answer.calls.has_text) == (False, True)


@HELD
def test_nothing_is_nothing(held: bool) -> None:
    answer = Answer(["\n\n"], buffered=held)
    assert answer.items == []
    assert (answer.calls.has_calls, answer.calls.has_text) == (False, False)


def test_arguments_are_streamed_as_they_are_written() -> None:
    answer = Answer(['<tool_call>{"name": "f", "arguments": {', '"a"', ": 1", "}}</tool_call>"])
    assert [event.text for event in answer.events if isinstance(event, Delta)] == ["{", '"a"', ": 1", "}"]


def test_a_held_call_is_said_at_once() -> None:
    answer = Answer(F, buffered=True)
    assert [event.text for event in answer.events if isinstance(event, Delta)] == ['{"a": 1}']


@HELD
def test_a_call_of_no_tool_is_left_out(held: bool) -> None:
    answer = Answer([f"One. {UNKNOWN}{F}"], buffered=held)
    assert answer.items == ["One. ", MADE_F]
    assert answer.calls.rejected == [RejectedCall("h", "there is no such tool")]


def test_a_held_call_that_does_not_fit_is_left_out() -> None:
    answer = Answer([UNFIT, F], buffered=True)
    assert answer.items == [MADE_F]
    assert answer.calls.rejected == [RejectedCall("f", WHY_UNFIT)]


def test_a_streamed_call_that_does_not_fit_ends_the_turn() -> None:
    answer = Answer([G, UNFIT, F, " text"])
    assert answer.failed == Failed("tool_call_parse_error", f"the model's call of 'f' cannot be used: {WHY_UNFIT}")
    assert [event.item["name"] for event in answer.events if isinstance(event, ItemStarted)] == ["g", "f"]
    assert answer.calls.rejected == [RejectedCall("f", WHY_UNFIT)]


@HELD
@pytest.mark.parametrize(
    ("text", "made", "why"),
    [(UNFIT, ("f", '{"a": "one"}'), WHY_UNFIT), (UNKNOWN, ("h", '{"a": 1}'), "there is no such tool")],
    ids=["does not fit", "no such tool"],
)
def test_a_call_that_does_not_fit_may_be_said_and_reported(text: str, made: Any, why: str, held: bool) -> None:
    answer = Answer([text, F], buffered=held, validation="report")
    assert answer.items == [made, MADE_F]
    assert answer.calls.rejected == [RejectedCall(made[0], why)]


@HELD
@pytest.mark.parametrize("validation", ["drop", "report"])
def test_arguments_that_are_too_long_are_refused(validation: str, held: bool) -> None:
    long = '<tool_call>{"name": "g", "arguments": {"a": "éééééé'
    answer = Answer([long, "é", 'é"}}</tool_call>', F], buffered=held, validation=validation, max_args_bytes=20)
    assert answer.calls.rejected[0] == RejectedCall("g", "the arguments are longer than 20 bytes")
    if held:
        assert answer.items == [MADE_F]
    else:
        assert answer.failed is not None
        assert answer.failed.code == "tool_call_parse_error"


def test_arguments_may_be_as_long_as_allowed() -> None:
    assert Answer([F], max_args_bytes=8).items == [MADE_F]


@HELD
def test_an_answer_of_nothing_but_calls_that_cannot_be_said_says_so(held: bool) -> None:
    answer = Answer([UNKNOWN], buffered=held)
    assert answer.items == ["The model made a tool call that cannot be run."]
    assert not answer.calls.has_calls


@HELD
def test_what_was_dropped_is_noted(held: bool) -> None:
    answer = Answer([UNKNOWN, F], buffered=held)
    noted = [event.facts for event in answer.events if isinstance(event, Noted)]
    assert noted == [{"tool_warnings": [{"name": "h", "why": "there is no such tool"}]}]
    assert not any(isinstance(event, Noted) for event in Answer([F, UNFIT]).events)


@HELD
@pytest.mark.parametrize("truncated", [False, True])
def test_a_block_of_which_nothing_was_said_is_no_call(truncated: bool, held: bool) -> None:
    answer = Answer(['<tool_call>{"nam'], buffered=held, truncated=truncated)
    assert answer.items == ["The model began a tool call and did not finish it."]
    assert answer.calls.rejected == [RejectedCall("", "the text ends in the middle of a call")]


@pytest.mark.parametrize("truncated", [False, True])
def test_a_held_call_that_was_cut_is_no_call(truncated: bool) -> None:
    answer = Answer([F, '<tool_call>{"name": "f", "arguments": {"a'], buffered=True, truncated=truncated)
    assert answer.items == [MADE_F]
    assert answer.calls.rejected == [RejectedCall("f", "the text ends in the middle of a call")]


def test_a_streamed_call_that_was_cut_at_the_limit_of_tokens_is_incomplete() -> None:
    answer = Answer(['<tool_call>{"name": "f", "arguments": {"a'], truncated=True)
    assert answer.items == [("f", '{"a', "incomplete")]
    assert answer.calls.rejected == []


def test_a_streamed_call_that_was_cut_elsewhere_fails() -> None:
    answer = Answer(['<tool_call>{"name": "f", "arguments": {"a'])
    assert answer.failed is not None
    assert answer.failed.message.endswith("the text ends in the middle of a call")


@HELD
def test_a_call_that_was_whole_at_the_limit_of_tokens_is_a_call(held: bool) -> None:
    assert Answer(['<tool_call>{"name": "f", "arguments": {"a": 1}}'], buffered=held, truncated=True).items == [MADE_F]


def test_a_block_that_is_no_call_is_left_out() -> None:
    answer = Answer([f"One. <tool_call>oops</tool_call>{F}"])
    assert answer.items == ["One. ", MADE_F]
    assert answer.calls.rejected == [RejectedCall("", "there is no call in it")]


@HELD
def test_a_block_that_is_no_call_may_be_said_as_text(held: bool) -> None:
    answer = Answer([f"<tool_call>oops</tool_call>{F}"], buffered=held, validation="report")
    assert answer.items == ["<tool_call>oops</tool_call>", MADE_F]
    assert answer.calls.rejected == [RejectedCall("", "there is no call in it")]


def test_a_call_that_breaks_in_the_middle_is_incomplete_where_faults_are_reported() -> None:
    broken = '<tool_call>{"name": "f", "arguments": {"a": x}}</tool_call>'
    answer = Answer([broken, F], validation="report")
    assert answer.items == [("f", '{"a": x', "incomplete"), MADE_F]
    assert answer.calls.rejected == [RejectedCall("f", "a call is not valid JSON")]


def test_nothing_follows_a_failure() -> None:
    answer = Answer([UNFIT])
    assert answer.failed is not None
    assert answer.calls.feed("text") == answer.calls.finish(truncated=False) == []


def test_log_probabilities_go_with_the_text_that_is_said_next() -> None:
    new_id = counting_ids()
    calls = TextCallDecoder(ItemWriter(new_id), new_id, PARSER_FACTORIES["hermes"](), TOOLS, buffered=False)
    one, two, three, four = ({"token": str(number)} for number in range(4))
    events = calls.feed("a", [one]) + calls.feed("<t", [two]) + calls.feed("b", [three])
    events += calls.feed(G, [four]) + calls.feed("c") + calls.finish(truncated=False)
    told = [event.logprobs for event in events if isinstance(event, Delta)]
    assert told == [[one], [two, three], None, None]


def test_blank_text_of_any_parser_is_dropped() -> None:
    class Blank:
        def feed(self, text: str) -> list[ParserOutput]:
            return [PlainText(text)]

        def finish(self) -> list[ParserOutput]:
            return []

    new_id = counting_ids()
    calls = TextCallDecoder(ItemWriter(new_id), new_id, Blank(), TOOLS, buffered=False)
    assert calls.feed(" \n") == []
    assert not calls.has_text


TEXT = f"One.\n{F}{UNKNOWN} Two. {G}\n"


@HELD
@given(cuts=st.lists(st.integers(0, len(TEXT)), max_size=8))
def test_how_the_text_is_cut_does_not_matter(held: bool, cuts: list[int]) -> None:
    places = sorted({0, len(TEXT), *cuts})
    answer = Answer([TEXT[start:end] for start, end in pairwise(places)], buffered=held)
    assert answer.items == ["One.\n", MADE_F, " Two. ", MADE_G]
