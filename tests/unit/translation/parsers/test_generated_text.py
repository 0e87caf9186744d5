"""Text of an engine as events: thoughts, answers, and calls in the text."""

from typing import Any

import pytest

from tests.unit.support.event_grammar import EventGrammar
from tests.unit.support.translator_drivers import collect, counting_ids
from translation.parsers.generated_text import GeneratedTextDecoder
from translation.parsers.thought_reader import (
    CLOSING_TAGS,
    ThoughtReader,
    text_after_first_tag,
    text_after_last_tag,
    unclosed_tag_name,
)
from translation.parsers.tools import PARSER_FACTORIES
from translation.representation.events import Delta, Event, Finished, FinishReason, ItemEnded, Noted, Started, Usage
from translation.representation.json_types import Json
from translation.representation.profile import DEFAULT_PROFILE, Profile

WEATHER: Json = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'


def generated(profile: Profile = DEFAULT_PROFILE, **how: Any) -> GeneratedTextDecoder:
    if how.pop("calls", False):
        how |= {"parser": PARSER_FACTORIES["hermes"](), "tools": [WEATHER]}
    return GeneratedTextDecoder(counting_ids(), profile, **how)


def ended(said: list[Event], out: GeneratedTextDecoder, reason: FinishReason = "stop") -> list[Event]:
    """Returns all events of a turn, after checking their grammar."""
    events = [Started("m"), *said, *out.finish(reason, Usage(output=4))]
    grammar = EventGrammar()
    grammar.check(events)
    grammar.finish()
    return events


def read(events: list[Event]) -> list[tuple[str, str]]:
    """Returns (type, text) of the items."""
    found = []
    for item in collect(events):
        parts = [*item.get("content", ()), *item.get("summary", ())]
        found.append((item["type"], item.get("arguments", "".join(part["text"] for part in parts))))
    return found


def test_line_breaks_around_a_thought_are_layout() -> None:
    out = generated()
    events = ended(
        [*out.feed_reasoning("\nI think."), *out.feed_reasoning("\n"), *out.feed_text("\n\nYes"), *out.feed_text("\n")],
        out,
    )
    assert read(events) == [("reasoning", "I think."), ("message", "Yes\n")]
    assert events[-1] == Finished("stop", None, Usage(output=4))


def test_line_breaks_before_an_answer_without_a_thought_are_left_unless_it_was_to_think() -> None:
    out = generated()
    assert read(ended(out.feed_text("\nYes"), out)) == [("message", "\nYes")]
    out = generated()
    out.begin_answer()
    assert read(ended(out.feed_text("\nYes"), out)) == [("message", "Yes")]


def test_thoughts_have_the_part_type_of_the_profile() -> None:
    out = generated(Profile(reasoning_part="summary_text"))
    (item,) = collect(ended(out.feed_reasoning("I think."), out))
    assert item["summary"] == [{"type": "summary_text", "text": "I think."}]


@pytest.mark.parametrize("size", range(1, 12))
def test_text_is_split_at_think_tags(size: int) -> None:
    out = generated(parse_think_tags=True)
    text = "<think>\nI think.\n</think>\n\nYes"
    assert out.parses_think_tags
    said = [event for at in range(0, len(text), size) for event in out.feed_text(text[at : at + size])]
    assert read(ended(said, out)) == [("reasoning", "I think."), ("message", "Yes")]


def test_text_begins_in_a_thought_where_the_prompt_opened_the_tag() -> None:
    out = generated(parse_think_tags=True, think_open=True)
    assert out.in_reasoning
    said = out.feed_text("I think.</think>")
    assert not out.in_reasoning
    assert read(ended([*said, *out.feed_text("Yes")], out)) == [("reasoning", "I think."), ("message", "Yes")]
    assert not generated().in_reasoning
    assert not generated().parses_think_tags


def test_text_buffered_for_a_tag_is_sent_at_the_end() -> None:
    out = generated(parse_think_tags=True)
    assert read(ended(out.feed_text("1 <"), out)) == [("message", "1 <")]


def test_an_answer_that_was_cut_is_incomplete() -> None:
    out = generated()
    *_, item, end = ended([*out.feed_reasoning("I think."), *out.feed_text("Ye")], out, "length")
    assert isinstance(item, ItemEnded)
    assert item.status == "incomplete"
    assert isinstance(end, Finished)
    assert end.reason == "length"


def tokens_of(*texts: str) -> list[Json]:
    return [{"token": text, "logprob": 0.0, "bytes": list(text.encode()), "top_logprobs": []} for text in texts]


def probable(events: list[Event]) -> list[tuple[str, str]]:
    """Returns (text, text of its tokens) of each delta with log probabilities."""
    return [
        (event.text, "".join(entry["token"] for entry in event.logprobs))
        for event in events
        if isinstance(event, Delta) and event.logprobs
    ]


@pytest.mark.parametrize("calls", [False, True])
def test_probabilities_are_of_the_tokens_of_the_text(calls: bool) -> None:
    """An engine that is read late sends several tokens at once, with the one that ends the turn."""
    out = generated(calls=calls)
    events = [*out.feed_text("Yes", tokens_of("Yes")), *out.feed_text(".", tokens_of(".", "<|im_end|>"))]
    assert probable(ended(events, out)) == [("Yes", "Yes"), (".", ".")]


@pytest.mark.parametrize("calls", [False, True])
def test_probabilities_of_reasoning_and_tags_are_left_out(calls: bool) -> None:
    out = generated(calls=calls, parse_think_tags=True, think_open=True)
    events = [
        *out.feed_text("Yes. </thi", tokens_of("Yes", ". ", "</", "thi")),
        *out.feed_text("nk>\n\nYes <", tokens_of("nk", ">\n\n", "Yes", " <")),
        *out.feed_text("b>", tokens_of("b", ">")),
    ]
    assert probable(ended(events, out)) == [("Yes ", "Yes <"), ("<b>", "b>")]


def test_probabilities_of_calls_are_left_out() -> None:
    out = generated(calls=True)
    events = [
        *out.feed_text("One.<tool", tokens_of("One", ".", "<", "tool")),
        *out.feed_text(CALL.removeprefix("<tool"), tokens_of(*CALL.removeprefix("<tool"))),
        *out.feed_text("Two.", tokens_of("Two", ".")),
    ]
    assert probable(ended(events, out)) == [("One.", "One."), ("Two.", "Two.")]


def test_text_that_an_engine_sends_after_its_tokens_has_their_probabilities() -> None:
    out = generated()
    events = [
        *out.feed_text("", tokens_of("The")),
        *out.feed_text("The an", tokens_of(" answer")),
        *out.feed_text("swer is", tokens_of(" is", " 7")),
    ]
    assert probable(ended(events, out)) == [("The an", "The answer"), ("swer is", " is")]


def test_calls_are_read_out_of_the_answer() -> None:
    out = generated(calls=True)
    events = ended([*out.feed_reasoning("I look."), *out.feed_text(f"One moment.\n{CALL}")], out)
    assert [kind for kind, _ in read(events)] == ["reasoning", "message", "function_call"]
    assert read(events)[-1] == ("function_call", '{"city": "Paris"}')
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "tool_calls"


def test_an_answer_without_calls_just_stops() -> None:
    out = generated(calls=True)
    events = ended(out.feed_text("No tool for that."), out)
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "stop"


def test_an_answer_truncated_after_a_call_is_incomplete() -> None:
    out = generated(calls=True)
    events = ended(out.feed_text(CALL + "\nAnd"), out, "length")
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "length"


def test_a_call_that_breaks_off_is_left_out_with_a_warning() -> None:
    out = generated(calls=True)
    said = out.feed_text('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Par')
    events = ended(said, out)
    why = "the text ends in the middle of a call"
    assert Noted(facts={"tool_warnings": [{"name": "get_weather", "why": why}]}) in events
    assert events[-1] == Finished("stop", None, Usage(output=4))


THOUGHT = "a < b</thin> </think"


@pytest.mark.parametrize("tag", CLOSING_TAGS)
def test_a_thought_ends_at_either_tag_however_it_is_cut(tag: str) -> None:
    text = f"{THOUGHT}{tag} Yes"
    for cut in range(len(text) + 1):
        reader = ThoughtReader()
        said = reader.feed(text[:cut]) + reader.feed(text[cut:])
        assert reader.closed
        assert (said, reader.remainder) == (THOUGHT, " Yes")


def test_nothing_of_a_thought_follows_its_end() -> None:
    reader = ThoughtReader()
    assert reader.feed("a</think>b") == "a"
    assert reader.feed("c") == ""
    assert reader.remainder == "bc"


@pytest.mark.parametrize("size", range(1, 9))
def test_an_opening_tag_that_is_repeated_is_taken_out(size: int) -> None:
    reader, text = ThoughtReader(), "<think>a<thinking>b</think>"
    assert "".join(reader.feed(text[at : at + size]) for at in range(0, len(text), size)) == "ab"
    assert reader.closed


CUTS = {
    "": ("", "</thinking>"),
    "<": ("<", "</thinking>"),
    "<thi": ("<thi", "</thinking>"),
    "</": ("", "thinking>"),
    "</thinki": ("", "ng>"),
    "</think": ("", "ing>"),
}


@pytest.mark.parametrize(("begun", "expected"), CUTS.items(), ids=CUTS)
def test_a_closing_tag_that_was_begun_is_no_thought(begun: str, expected: tuple[str, str]) -> None:
    reader = ThoughtReader()
    assert reader.feed(f"a{begun}") == "a"
    assert reader.end_unclosed("</thinking>") == expected


@pytest.mark.parametrize(
    ("tail", "tag"),
    [("assistant\n", None), ("<think>\n", "think"), ("<thinking>", "thinking"), ("<think>\n\n</think>\n\n", None)],
)
def test_the_end_of_a_prompt_shows_whether_the_template_opened_a_tag(tail: str, tag: str | None) -> None:
    assert unclosed_tag_name(tail) == tag


def test_text_after_a_tag_is_split_correctly() -> None:
    text = "a</think>b</thinking>c"
    assert (text_after_first_tag(text), text_after_last_tag(text)) == ("b</thinking>c", "c")
    assert text_after_first_tag("a</think>") == text_after_last_tag("a</think>") == ""
    assert text_after_first_tag("a") == text_after_last_tag("a") == "a"
