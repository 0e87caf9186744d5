"""Calls that a chat upstream writes as text."""

from itertools import pairwise

import orjson
import pytest

from tests.unit.support.chat_chunks import call, calls, chunk, completion, text_chunk, thought
from tests.unit.support.event_grammar import EventGrammar
from tests.unit.support.translator_drivers import collect, counting_ids, decode
from translation.chat.upstream.decode import ChatDecoder
from translation.representation.events import Event, Finished, Noted
from translation.representation.json_types import Json
from translation.representation.profile import Profile

TOOLS: list[Json] = [
    {"type": "function", "name": "f", "parameters": {"properties": {"a": {"type": "integer"}}}},
    {"type": "function", "name": "g"},
]
HERMES = Profile(tool_parser="hermes")
F = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
UNFIT = '<tool_call>{"name": "f", "arguments": {"a": "x"}}</tool_call>'


def read(*chunks: Json, profile: Profile = HERMES, tools: list[Json] = TOOLS) -> list[Event]:
    return decode(ChatDecoder(counting_ids(), profile, tools=tools), chunks)


def brief(events: list[Event]) -> list[object]:
    """Returns messages and thoughts as their text, calls as (name, arguments)."""
    found: list[object] = []
    for item in collect(events):
        if item["type"] == "function_call":
            found.append((item["name"], item["arguments"]))
        else:
            found.append("".join(part["text"] for part in item["content"]))
    return found


@pytest.mark.parametrize(
    "profile", [HERMES, Profile(text_tool_calls="hermes"), Profile(tool_parser="json", text_tool_calls="hermes")]
)
def test_calls_in_text_are_calls(profile: Profile) -> None:
    events = read(
        text_chunk("Let me see.\n"), text_chunk(F[:20]), text_chunk(F[20:]), chunk(finish="stop"), profile=profile
    )
    assert brief(events) == ["Let me see.\n", ("f", '{"a": 1}')]
    assert events[-1] == Finished("tool_calls", "stop")


def test_a_json_reply_is_parsed_in_the_same_way() -> None:
    events = read(completion({"content": f"Let me see.\n{F}"}))
    assert brief(events) == ["Let me see.\n", ("f", '{"a": 1}')]
    assert events[-1] == Finished("tool_calls", "stop")


@pytest.mark.parametrize(
    ("profile", "tools"),
    [(HERMES, []), (Profile(), TOOLS), (Profile(tool_parser="vllm:granite"), TOOLS)],
    ids=["no tools", "native calls", "a parser of another's"],
)
def test_without_tools_or_parser_text_is_text(profile: Profile, tools: list[Json]) -> None:
    events = read(text_chunk(F), chunk(finish="stop"), profile=profile, tools=tools)
    assert brief(events) == [F]
    assert events[-1] == Finished("stop", "stop")


def test_text_without_calls_ends_unchanged() -> None:
    events = read(text_chunk("1 < 2 "), text_chunk("<t"), chunk(finish="stop"))
    assert brief(events) == ["1 < 2 <t"]
    assert events[-1] == Finished("stop", "stop")


def test_thoughts_precede_calls() -> None:
    profile = Profile(tool_parser="hermes", parsing_format="think_tags")
    events = read(text_chunk("<think>\nHm.\n</think>\n\n"), text_chunk(F), chunk(finish="stop"), profile=profile)
    assert brief(events) == ["Hm.", ("f", '{"a": 1}')]


def test_separate_thoughts_precede_calls() -> None:
    events = read(thought("Hm."), text_chunk("\n\n"), text_chunk(F), chunk(finish="stop"))
    assert brief(events) == ["Hm.", ("f", '{"a": 1}')]


def test_native_calls_are_calls_too() -> None:
    native = calls(call(0, id="c1", name="g", arguments="{}"))
    events = read(text_chunk(F), native, chunk(finish="tool_calls"))
    assert brief(events) == [("f", '{"a": 1}'), ("g", "{}")]


def test_refusals_are_not_parsed_for_calls() -> None:
    events = read(chunk({"refusal": F}), chunk(finish="stop"))
    assert [part["refusal"] for part in collect(events)[0]["content"]] == [F]


def test_a_call_that_does_not_fit_leaves_the_rest_of_the_stream() -> None:
    events = read(text_chunk(UNFIT[:30]), text_chunk(UNFIT[30:]), text_chunk(f"more{F}"), chunk(finish="stop"))
    assert brief(events) == ["more", ("f", '{"a": 1}')]
    assert events[-1] == Finished("tool_calls", "stop")


def test_a_call_that_breaks_off_is_reported_at_the_end() -> None:
    events = read(text_chunk(F[:-15]), chunk(finish="stop"))
    why = "the text ends in the middle of a call"
    assert brief(events) == []
    assert Noted(facts={"tool_warnings": [{"name": "f", "why": why}]}) in events
    assert events[-1] == Finished("stop", "stop")


def test_a_call_that_is_cut_at_the_limit_of_tokens_is_incomplete() -> None:
    events = read(text_chunk(F[:40]), chunk(finish="length"))
    assert [(item["name"], item["status"]) for item in collect(events)] == [("f", "incomplete")]
    assert events[-1] == Finished("length", "length")


def test_a_call_that_does_not_fit_is_left_out_of_a_whole_answer() -> None:
    events = read(completion({"content": f"{UNFIT}{F}"}))
    assert brief(events) == [("f", '{"a": 1}')]


def test_a_profile_decides_about_calls_that_do_not_fit() -> None:
    reports = Profile(tool_parser="hermes", tool_validation="report")
    assert brief(read(completion({"content": UNFIT}), profile=reports)) == [("f", '{"a": "x"}')]
    short = Profile(tool_parser="hermes", max_tool_args_bytes=5)
    assert brief(read(completion({"content": F}), profile=short)) == []


def test_delta_runs_are_parsed_for_calls_however_reads_are_split() -> None:
    text = f"Let me see, said the model.\n{F}\nDone."
    payloads = [orjson.dumps(text_chunk(each)) for each in text]
    payloads.append(orjson.dumps(chunk(finish="stop")))
    for size in (1, 7, len(payloads)):
        decoder = ChatDecoder(counting_ids(), HERMES, tools=TOOLS)
        events: list[Event] = []
        for start, end in pairwise([*range(0, len(payloads), size), len(payloads)]):
            events += decoder.decode_payloads(payloads[start:end])
            assert decoder.delta_run is None
        events += decoder.finish()
        EventGrammar().check(events)
        assert brief(events) == ["Let me see, said the model.\n", ("f", '{"a": 1}'), "\nDone."]
