"""Tool calls on a chat relay: well-formed calls are unchanged, others are normalized."""

import copy

import orjson
import pytest

from tests.unit.support.chat_chunks import chunk, completion
from tests.unit.support.golden import chunks_of
from tests.unit.support.translator_drivers import relay_to_end
from translation.chat.relaying.choices import ChunkForm
from translation.chat.relaying.chunk_identity import OwnCompletion
from translation.chat.relaying.relay import ChatRelay
from translation.chat.relaying.whole_completion import relay_completion
from translation.framing import sse
from translation.hygiene.call_tracker import DEFAULT_RULES, CallRules
from translation.representation.json_types import Json


def entry(index: int | None = 0, call_id: str | None = None, name: str | None = None, text: object = None) -> Json:
    function = {key: value for key, value in (("name", name), ("arguments", text)) if value is not None}
    keys = {"index": index, "id": call_id, "type": "function" if call_id else None, "function": function}
    return {key: value for key, value in keys.items() if value is not None}


def delta(*entries: Json) -> Json:
    return {"tool_calls": list(entries)}


def relayed(
    *deltas: Json, finish: str = "tool_calls", legacy: bool = False, rules: CallRules = DEFAULT_RULES
) -> list[Json]:
    form = ChunkForm(frozenset({"reasoning"}), legacy_functions=legacy)
    relay = ChatRelay(OwnCompletion(None, {}), form, call_rules=rules)
    wire = b"".join(sse.encode_data(orjson.dumps(each)) for each in [*map(chunk, deltas), chunk(finish=finish)])
    return chunks_of(relay_to_end(relay, wire + sse.DONE_FRAME))


def added_up(chunks: list[Json]) -> list[tuple[str, str, str]]:
    """Returns (id, name, arguments) as the official client joins them: by index, ids and names once, pieces joined."""
    calls: dict[int, list[str]] = {}
    for each in chunks:
        for call in each["choices"][0]["delta"].get("tool_calls") or ():
            at = calls.setdefault(call["index"], ["", "", ""])
            at[0] = call.get("id") or at[0]
            at[1] += call["function"].get("name") or ""
            at[2] += call["function"].get("arguments") or ""
    assert sorted(calls) == list(range(len(calls)))
    return [(call[0], call[1], call[2]) for _, call in sorted(calls.items())]


F_AND_G = [("a", "f", '{"x":1}'), ("b", "g", "{}")]

ODD: dict[str, tuple[list[Json], list[tuple[str, str, str]]]] = {
    "no index, whole calls": ([delta(entry(None, "a", "f", '{"x":1}'), entry(None, "b", "g", "{}"))], F_AND_G),
    "all arguments again, with id and name": (
        [
            delta(entry(0, "a", "f", '{"x"'), entry(0, None, None, ":1}")),
            delta(entry(0, "a", "f", '{"x": 1}')),
            delta(entry(1, "b", "g", "{}"), entry(0, "a", "f", '{"x":1}')),
        ],
        F_AND_G,
    ),
    "all arguments again, with the index": (
        [delta(entry(0, "a", "f")), delta(entry(0, None, None, "{}")), delta(entry(0, None, None, "{}"))],
        [("a", "f", "{}")],
    ),
    "all arguments again, as a JSON text": (
        [delta(entry(0, "a", "f", '{"x":1}')), delta(entry(0, "a", None, '"{\\"x\\":1}"'))],
        F_AND_G[:1],
    ),
    "all arguments again, in the legacy field": (
        [{"function_call": {"name": "f", "arguments": "{}"}}, {"function_call": {"arguments": "{}"}}],
        [("tc_1", "f", "{}")],
    ),
    "the same arguments with another id": (
        [delta(entry(0, "a", "f", "{}")), delta(entry(0, "b", "f", "{}"))],
        [("a", "f", "{}"), ("b", "f", "{}")],
    ),
    "no index, fragments": (
        [
            delta(entry(None, "a", "f", "")),
            delta(entry(None, None, None, '{"x":1}')),
            delta(entry(None, "b", "g", "{}")),
        ],
        F_AND_G,
    ),
    "no index and no ids": (
        [delta(entry(None, None, "f", '{"x":1}')), delta(entry(None, None, "g", "{}"))],
        [("tc_1", "f", '{"x":1}'), ("tc_2", "g", "{}")],
    ),
    "one index for all": ([delta(entry(0, "a", "f", '{"x":1}')), delta(entry(0, "b", "g", "{}"))], F_AND_G),
    "one index for all and no ids": (
        [delta(entry(0, None, "f", '{"x":1}')), delta(entry(0, None, "g", "{}"))],
        [("tc_1", "f", '{"x":1}'), ("tc_2", "g", "{}")],
    ),
    "one function twice, under one index and without ids": (
        [delta(entry(0, None, "f", '{"x":1}')), delta(entry(0, None, "f", '{"x":2}'))],
        [("tc_1", "f", '{"x":1}'), ("tc_2", "f", '{"x":2}')],
    ),
    "the name without an id in every fragment": (
        [delta(entry(0, "a", "f", '{"x"')), delta(entry(0, None, "f", ":1}")), delta(entry(0, None, "f", ""))],
        [("a", "f", '{"x":1}')],
    ),
    "a name in pieces": (
        [delta(entry(0, "a", "f", "")), delta(entry(0, None, "g", "")), delta(entry(0, None, None, "{}"))],
        [("a", "fg", "{}")],
    ),
    "indexes with gaps": ([delta(entry(3, "a", "f", '{"x":1}')), delta(entry(7, "b", "g", "{}"))], F_AND_G),
    "interleaved": (
        [
            delta(entry(0, "a", "f", ""), entry(1, "b", "g", "")),
            delta(entry(1, None, None, "{}")),
            delta(entry(0, None, None, '{"x":1}')),
        ],
        F_AND_G,
    ),
    "ids used twice": (
        [delta(entry(0, "a", "f", "{}")), delta(entry(1, "a", "g", "{}"))],
        [("a", "f", "{}"), ("a__2", "g", "{}")],
    ),
    "the name and id in every fragment": (
        [delta(entry(0, "a", "f", '{"x"')), delta(entry(0, "a", "f", ":1}"))],
        [("a", "f", '{"x":1}')],
    ),
    "arguments as an object": ([delta(entry(0, "a", "f", {"x": 1}))], [("a", "f", '{"x":1}')]),
    "no arguments": ([delta(entry(0, "a", "f", ""))], [("a", "f", "{}")]),
    "one call instead of a list": ([{"tool_calls": entry(0, "a", "f", '{"x":1}')}], [("a", "f", '{"x":1}')]),
    "a flat call": (
        [{"tool_calls": [{"id": "a", "name": "f", "arguments": '{"x":1}'}]}],
        [("a", "f", '{"x":1}')],
    ),
    "the form of before there were tools": (
        [{"function_call": {"name": "f", "arguments": ""}}, {"function_call": {"arguments": '{"x":1}'}}],
        [("tc_1", "f", '{"x":1}')],
    ),
}


@pytest.mark.parametrize(("deltas", "expected"), ODD.values(), ids=ODD)
def test_odd_calls_add_up(deltas: list[Json], expected: list[tuple[str, str, str]]) -> None:
    assert added_up(relayed(*deltas)) == expected


@pytest.mark.parametrize(("deltas", "expected"), ODD.values(), ids=ODD)
def test_every_call_begins_with_its_id_type_and_name(deltas: list[Json], expected: list[tuple[str, str, str]]) -> None:
    seen: set[int] = set()
    for each in relayed(*deltas):
        for call in each["choices"][0]["delta"].get("tool_calls") or ():
            if call["index"] not in seen:
                seen.add(call["index"])
                assert call["id"]
                assert call["type"] == "function"
                assert call["function"]["name"]
    assert len(seen) == len(expected)


def test_well_formed_calls_and_unknown_keys_are_unchanged() -> None:
    first = {**entry(0, "a", "f", ""), "extra_content": {"google": {"thought_signature": "s"}}}
    deltas = [delta(first), delta(entry(0, None, None, '{"x":1}')), delta(entry(1, "b", "g", "{}"))]
    assert [each["choices"][0]["delta"] for each in relayed(*deltas)][:3] == deltas


def test_a_call_that_was_cut_gets_no_arguments() -> None:
    assert added_up(relayed(delta(entry(0, "a", "f", "")), finish="length")) == [("a", "f", "")]


def test_a_client_with_legacy_functions_gets_function_calls() -> None:
    sent = {"function_call": {"name": "f", "arguments": "{}"}}
    assert relayed(sent, legacy=True, finish="function_call")[0]["choices"][0]["delta"] == sent


@pytest.mark.parametrize("cut", [False, True])
def test_a_client_with_legacy_functions_is_warned_of_custom_calls(cut: bool) -> None:
    called = {"function_call": {"name": "f", "arguments": "{}"}}
    finish = "length" if cut else "function_call"
    why = "the call is in tool_calls, but a request with functions expects it in function_call"
    expected = None if cut else [{"name": "g", "why": why}]
    streamed = relayed(called, delta(entry(0, "b", "g", "{}")), legacy=True, finish=finish)
    assert streamed[-1].get("tool_warnings") == expected
    answer = completion({**called, **delta(entry(None, "b", "g", "{}"))}, finish)
    whole = relay_completion(answer, model=None, reasoning_fields=frozenset(), legacy_functions=True)
    assert whole.get("tool_warnings") == expected


def test_custom_calls_are_left_alone() -> None:
    sent = delta({"index": 0, "id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}})
    assert relayed(sent)[0]["choices"][0]["delta"] == sent
    assert len(relayed(sent)) == 2


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ([{"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}], [("a", "f", "{}")]),
        ([{"function": {"name": "f", "arguments": {"x": 1}}}], [("tc_1", "f", '{"x":1}')]),
        ({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}, [("a", "f", "{}")]),
        ([entry(None, "a", "f", "{}"), entry(None, "a", "g", None)], [("a", "f", "{}"), ("a__2", "g", "{}")]),
    ],
    ids=["empty arguments", "no id, arguments as an object", "one call instead of a list", "one id twice"],
)
def test_calls_of_a_whole_message_are_normalized(sent: object, expected: list[tuple[str, str, str]]) -> None:
    answer = completion({"role": "assistant", "content": None, "tool_calls": sent}, "tool_calls")
    before = copy.deepcopy(answer)
    out = relay_completion(answer, model=None, reasoning_fields=frozenset())
    calls = out["choices"][0]["message"]["tool_calls"]
    assert [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls] == expected
    assert all(call["type"] == "function" and "index" not in call for call in calls)
    assert answer == before


def test_a_whole_call_that_was_cut_gets_no_arguments() -> None:
    answer = completion({"content": None, "tool_calls": [entry(None, "a", "f", "")]}, "length")
    out = relay_completion(answer, model=None, reasoning_fields=frozenset())
    assert out["choices"][0]["message"]["tool_calls"][0]["function"] == {"name": "f", "arguments": ""}


def test_a_reply_has_no_more_calls_than_models_make() -> None:
    entries = [entry(index, f"c{index}", "f", "{}") for index in range(1001)]
    *_, failed = relayed(delta(*entries[:600]), delta(*entries[600:]))
    assert failed["error"]["code"] == "upstream_garbled"
