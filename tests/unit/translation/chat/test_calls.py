"""Tool calls of an upstream, for all kinds of indexes, names and splits."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.support.chat_chunks import call, calls, chunk, completion, text_chunk, thought
from tests.unit.support.translator_drivers import collect, counting_ids, decode
from translation.chat.call_entries import are_complete
from translation.chat.reasoning import build_call_detail
from translation.chat.relaying.calls import CallNormalizer
from translation.chat.upstream.decode import ChatDecoder
from translation.errors import ProtocolViolation
from translation.representation.events import Event, ItemEnded, ItemStarted, Noted
from translation.representation.json_types import Json

FIRST = call(id="a", name="f", arguments='{"x":1}')
SECOND = call(id="b", name="g", arguments='{"y":2}')
ONE = [("a", "f", '{"x":1}')]
TWO = [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')]

CASES: dict[str, tuple[list[Json], list[tuple[str, str, str]]]] = {
    "arguments in fragments": (
        [
            calls(call(0, id="a", name="f", arguments="")),
            calls(call(0, arguments='{"x"')),
            calls(call(0, arguments=":1}")),
        ],
        ONE,
    ),
    "an object instead of a list": (
        [
            chunk({"tool_calls": {"0": call(id="a", name="f", arguments='{"x"')}}),
            chunk({"tool_calls": {"0": call(arguments=":1}"), "1": call(id="b", name="g", arguments='{"y":2}')}}),
        ],
        TWO,
    ),
    "an object of a whole message": ([completion({"tool_calls": {"1": SECOND, "0": FIRST}})], TWO),
    "the whole call at once": ([calls(call(0, id="a", name="f", arguments='{"x":1}'))], ONE),
    "arguments as an object instead of a string": ([calls(call(0, id="a", name="f", arguments={"x": 1}))], ONE),
    "arguments left empty": ([calls(call(0, id="a", name="f", arguments=""))], [("a", "f", "{}")]),
    "arguments left out": ([calls(call(0, id="a", name="f"))], [("a", "f", "{}")]),
    "arguments of spaces": ([calls(call(0, id="a", name="f", arguments=" "))], [("a", "f", " {}")]),
    "arguments that are no JSON": ([calls(call(0, id="a", name="f", arguments="{x"))], [("a", "f", "{x")]),
    "parallel calls one after the other": (
        [
            calls(call(0, id="a", name="f")),
            calls(call(0, arguments='{"x":1}')),
            calls(call(1, id="b", name="g")),
            calls(call(1, arguments='{"y":2}')),
        ],
        TWO,
    ),
    "parallel calls that interleave": (
        [
            calls(call(0, id="a", name="f"), call(1, id="b", name="g")),
            calls(call(1, arguments='{"y"')),
            calls(call(0, arguments='{"x":1}')),
            calls(call(1, arguments=":2}")),
        ],
        TWO,
    ),
    "indexes with a gap": (
        [calls(call(3, id="a", name="f", arguments='{"x":1}')), calls(call(7, id="b", name="g", arguments='{"y":2}'))],
        TWO,
    ),
    "one index for all calls": (
        [
            calls(call(0, id="a", name="f", arguments="")),
            calls(call(0, arguments='{"x":1}')),
            calls(call(0, id="b", name="g", arguments="")),
            calls(call(0, arguments='{"y":2}')),
        ],
        TWO,
    ),
    "one index and no ids, each call whole": (
        [calls(call(0, name="f", arguments='{"x":1}'), call(0, name="g", arguments='{"y":2}'))],
        [("tc_1", "f", '{"x":1}'), ("tc_2", "g", '{"y":2}')],
    ),
    "one index and no ids, twice the same call": (
        [calls(call(0, name="f", arguments="{}")), calls(call(0, name="f", arguments="{}"))],
        [("tc_1", "f", "{}"), ("tc_2", "f", "{}")],
    ),
    "no index, but ids": (
        [
            calls(call(id="a", name="f", arguments='{"x"')),
            calls(call(id="a", arguments=":1}")),
            calls(call(id="b", name="g", arguments='{"y":2}')),
        ],
        TWO,
    ),
    "no index, ids that come back in turn": (
        [
            calls(call(id="a", name="f", arguments='{"x"'), call(id="b", name="g", arguments='{"y"')),
            calls(call(id="a", arguments=":1}"), call(id="b", arguments=":2}")),
        ],
        TWO,
    ),
    "no index and an id only at first": (
        [calls(call(id="a", name="f", arguments='{"x"')), calls(call(arguments=":1}"))],
        ONE,
    ),
    "neither index nor id, two in one chunk": (
        [calls(call(name="f"), call(name="g"))],
        [("tc_1", "f", "{}"), ("tc_2", "g", "{}")],
    ),
    "neither index nor id, one chunk each": (
        [calls(call(name="f", arguments={"x": 1})), calls(call(name="g", arguments={"y": 2}))],
        [("tc_1", "f", '{"x":1}'), ("tc_2", "g", '{"y":2}')],
    ),
    "no id at all": ([calls(call(0, name="f", arguments='{"x":1}'))], [("tc_1", "f", '{"x":1}')]),
    "an empty id": ([calls(call(0, id="", name="f", arguments='{"x":1}'))], [("tc_1", "f", '{"x":1}')]),
    "an id that is a number": (
        [chunk({"tool_calls": [{"id": 7, "function": {"name": "f"}}]})],
        [("7", "f", "{}")],
    ),
    "an id that comes after the name": (
        [calls(call(0, name="f")), calls(call(0, id="a")), calls(call(0, arguments='{"x":1}'))],
        ONE,
    ),
    "an id that comes after the arguments began": (
        [calls(call(0, name="f", arguments='{"x"')), calls(call(0, id="late", arguments=":1}"))],
        [("tc_1", "f", '{"x":1}')],
    ),
    "an id that changes in the middle": (
        [calls(call(0, id="a", name="f", arguments='{"x"')), calls(call(0, id="z", arguments=":1}"))],
        ONE,
    ),
    "an id and a name that are both repeated, with another id": (
        [calls(call(0, id="a", name="f", arguments='{"x"')), calls(call(0, id="z", name="f", arguments=":1}"))],
        ONE,
    ),
    "ids that are used twice": (
        [
            calls(call(0, id="a", name="f", arguments="{}"), call(1, id="a", name="f", arguments="{}")),
            calls(call(2, id="a", name="g", arguments="{}")),
        ],
        [("a", "f", "{}"), ("a__2", "f", "{}"), ("a__3", "g", "{}")],
    ),
    "one index and one id for two calls": (
        [calls(call(0, id="a", name="f", arguments="{}")), calls(call(0, id="a", name="g", arguments="{}"))],
        [("a", "f", "{}"), ("a__2", "g", "{}")],
    ),
    "all arguments again, with id and name": (
        [
            calls(call(0, id="a", name="f", arguments='{"x"')),
            calls(call(0, arguments=":1}")),
            calls(call(0, id="a", name="f", arguments='{"x": 1}')),
        ],
        ONE,
    ),
    "all arguments again, with the id": (
        [calls(call(0, id="a", name="f", arguments='{"x":1}')), calls(call(0, id="a", arguments='{"x":1}'))],
        ONE,
    ),
    "all arguments again, with the index": (
        [calls(call(0, id="a", name="f")), calls(call(0, arguments='{"x":1}')), calls(call(0, arguments='{"x":1}'))],
        ONE,
    ),
    "all arguments again, as a JSON text": (
        [calls(call(0, id="a", name="f", arguments='{"x":1}')), calls(call(0, id="a", arguments='"{\\"x\\":1}"'))],
        ONE,
    ),
    "all arguments again, without an index": (
        [calls(call(id="a", name="f", arguments='{"x":1}')), calls(call(id="a", name="f", arguments='{"x":1}'))],
        ONE,
    ),
    "all arguments again, after another call": (
        [
            calls(call(0, id="a", name="f", arguments='{"x":1}')),
            calls(call(1, id="b", name="g", arguments="{}")),
            calls(call(0, id="a", name="f", arguments='{"x":1}'), call(1, id="b", name="g", arguments="{}")),
        ],
        [*ONE, ("b", "g", "{}")],
    ),
    "the same arguments with another id": (
        [calls(call(0, id="a", name="f", arguments='{"x":1}')), calls(call(0, id="b", name="f", arguments='{"x":1}'))],
        [*ONE, ("b", "f", '{"x":1}')],
    ),
    "the same arguments with a name and without an id": (
        [calls(call(0, name="f", arguments='{"x":1}')), calls(call(0, name="f", arguments='{"x":1}'))],
        [("tc_1", "f", '{"x":1}'), ("tc_2", "f", '{"x":1}')],
    ),
    "other arguments with the same id": (
        [calls(call(0, id="a", name="f", arguments='{"x":1}')), calls(call(0, id="a", name="f", arguments='{"x":2}'))],
        [*ONE, ("a__2", "f", '{"x":2}')],
    ),
    "the same arguments with the same id and another name": (
        [calls(call(0, id="a", name="f", arguments='{"x":1}')), calls(call(0, id="a", name="g", arguments='{"x":1}'))],
        [*ONE, ("a__2", "g", '{"x":1}')],
    ),
    "an object in an object": (
        [
            calls(call(0, id="a", name="f", arguments='{"y":')),
            calls(call(0, arguments='{"x":1}')),
            calls(call(0, arguments="}")),
        ],
        [("a", "f", '{"y":{"x":1}}')],
    ),
    "a piece that looks like a JSON text and is none": (
        [calls(call(0, id="a", name="f", arguments='{"x":1}')), calls(call(0, id="a", arguments='"{"}"'))],
        [("a", "f", '{"x":1}"{"}"')],
    ),
    "a name that is split": (
        [calls(call(0, id="a", name="get_")), calls(call(0, name="weather", arguments="{}"))],
        [("a", "get_weather", "{}")],
    ),
    "a name that is repeated in each chunk": (
        [
            calls(call(0, id="a", name="f", arguments='{"x"')),
            calls(call(0, id="a", name="f", arguments=":1}")),
            calls(call(0, id="a", name="f", arguments="")),
        ],
        ONE,
    ),
    "a name that is repeated before the arguments": (
        [calls(call(0, id="a", name="f")), calls(call(0, id="a", name="f", arguments='{"x":1}'))],
        ONE,
    ),
    "a name that comes after the arguments": (
        [calls(call(0, id="a", arguments='{"x"')), calls(call(0, name="f")), calls(call(0, arguments=":1}"))],
        ONE,
    ),
    "another call while the first has no arguments yet": (
        [calls(call(0, id="a", name="f")), calls(call(0, id="b", name="g", arguments='{"y":2}'))],
        [("a", "f", "{}"), ("b", "g", '{"y":2}')],
    ),
    "another name before the first call's arguments are whole": (
        [calls(call(0, id="a", name="f", arguments="{x")), calls(call(0, id="b", name="g", arguments='{"y":2}'))],
        [("a", "f", "{x"), ("b", "g", '{"y":2}')],
    ),
    "arguments that end in a brace and are no JSON": (
        [calls(call(0, id="a", name="f", arguments='{"x":{}')), calls(call(0, id="a", name="f", arguments="}"))],
        [("a", "f", '{"x":{}}')],
    ),
    "calls in an object instead of a list": (
        [chunk({"tool_calls": call(0, id="a", name="f", arguments='{"x":1}')})],
        ONE,
    ),
    "a call without the function object": (
        [chunk({"tool_calls": [{"id": "a", "name": "f", "arguments": '{"x":1}'}]})],
        ONE,
    ),
    "entries that say nothing": (
        [chunk({"tool_calls": [None, "f", {}, {"index": 0}]}), calls(call(0, id="a", name="f", arguments='{"x":1}'))],
        ONE,
    ),
    "a call for an undeclared tool": ([calls(call(0, id="a", name="rm -rf"))], [("a", "rm -rf", "{}")]),
    "a whole completion whose calls share an id": (
        [completion({"content": None, "tool_calls": [call(id="a", name="f"), call(id="a", name="f")]})],
        [("a", "f", "{}"), ("a__2", "f", "{}")],
    ),
}


def made(events: list[Event]) -> list[tuple[str, str, str]]:
    """Returns (call_id, name, arguments) of every function call."""
    found = collect(events)
    return [(item["call_id"], item["name"], item["arguments"]) for item in found if item["type"] == "function_call"]


@pytest.mark.parametrize(("chunks", "expected"), CASES.values(), ids=CASES)
def test_calls_are_distinguished(chunks: list[Json], expected: list[tuple[str, str, str]]) -> None:
    events = decode(ChatDecoder(counting_ids()), [*chunks, chunk(finish="tool_calls")])
    assert made(events) == expected


def test_a_call_truncated_before_its_arguments_has_none() -> None:
    events = decode(ChatDecoder(counting_ids()), [calls(call(0, id="a", name="f")), chunk(finish="length")])
    (item,) = collect(events)
    assert (item["arguments"], item["status"]) == ("", "incomplete")


def test_only_the_last_call_of_a_cut_turn_is_incomplete() -> None:
    chunks = [calls(call(0, id="a", name="f"), call(1, id="b", name="g", arguments="{")), chunk(finish="length")]
    items = collect(decode(ChatDecoder(counting_ids()), chunks))
    assert [(item["arguments"], item["status"]) for item in items] == [("{}", "completed"), ("{", "incomplete")]


def test_reasoning_truncated_after_a_call_is_the_incomplete_item() -> None:
    chunks = [calls(call(0, id="a", name="f", arguments="{}")), thought("hm"), chunk(finish="length")]
    items = collect(decode(ChatDecoder(counting_ids()), chunks))
    assert [(item["type"], item.get("status")) for item in items] == [
        ("function_call", "completed"),
        ("reasoning", "incomplete"),
    ]


def test_text_after_a_list_without_calls_is_text() -> None:
    (item,) = collect(
        decode(ChatDecoder(counting_ids()), [chunk({"tool_calls": [None]}), text_chunk("yes"), chunk(finish="stop")])
    )
    assert item["content"][0]["text"] == "yes"


def test_text_after_a_call_without_arguments_yet_follows_it() -> None:
    chunks = [calls(call(0, id="a", name="f")), text_chunk("yes"), calls(call(0, arguments="{}")), chunk(finish="stop")]
    events = decode(ChatDecoder(counting_ids()), chunks)
    assert [event.item["type"] for event in events if isinstance(event, ItemStarted)] == ["function_call", "message"]
    assert made(events) == [("a", "f", "{}")]


END_ORDERS: dict[str, tuple[list[Json], list[tuple[str, int]]]] = {
    "another call": (
        [calls(call(0, id="a", name="f", arguments="{}")), calls(call(1, id="b", name="g", arguments="{}"))],
        [("starts", 0), ("ends", 0), ("starts", 1), ("ends", 1)],
    ),
    "text": (
        [calls(call(0, id="a", name="f", arguments="{}")), text_chunk("yes")],
        [("starts", 0), ("ends", 0), ("starts", 1), ("ends", 1)],
    ),
    "another call before the arguments are complete": (
        [
            calls(call(0, id="a", name="f", arguments='{"x"')),
            calls(call(1, id="b", name="g", arguments="{}")),
            calls(call(0, arguments=":1}")),
            calls(call(2, id="c", name="h", arguments="{}")),
        ],
        [("starts", 0), ("starts", 1), ("ends", 0), ("ends", 1), ("starts", 2), ("ends", 2)],
    ),
    "pieces of text between pieces of arguments": (
        [
            calls(call(0, id="a", name="f", arguments='{"x"')),
            *(text_chunk(piece) for piece in ("yes", ", ")),
            calls(call(0, arguments=":1}")),
            text_chunk("and"),
            calls(call(1, id="b", name="g", arguments="{}")),
        ],
        [("starts", 0), ("starts", 1), ("ends", 0), ("ends", 1), ("starts", 2), ("ends", 2)],
    ),
}


@pytest.mark.parametrize(("chunks", "order"), END_ORDERS.values(), ids=END_ORDERS)
def test_a_call_with_complete_arguments_ends_before_the_next_item(
    chunks: list[Json], order: list[tuple[str, int]]
) -> None:
    events = decode(ChatDecoder(counting_ids()), [*chunks, chunk(finish="tool_calls")])
    found = [event for event in events if isinstance(event, ItemStarted | ItemEnded)]
    assert [("starts" if isinstance(event, ItemStarted) else "ends", event.index) for event in found] == order


def test_text_after_the_end_of_a_call_is_left_out_with_a_warning() -> None:
    late = [calls(call(0, arguments=piece)) for piece in (" ", "}", "}")]
    chunks = [calls(FIRST | {"index": 0}), calls(SECOND | {"index": 1}), *late, chunk(finish="tool_calls")]
    events = decode(ChatDecoder(counting_ids()), chunks)
    assert made(events) == TWO
    warnings = [event.facts for event in events if isinstance(event, Noted) and event.facts]
    assert warnings == [{"tool_warnings": [{"name": "f", "why": "text followed its complete arguments"}]}]


DATA: Json = {"google": {"thought_signature": "s"}}


@pytest.mark.parametrize(
    ("chunks", "kinds"),
    [
        ([calls({**FIRST, "extra_content": DATA})], ["reasoning", "function_call"]),
        ([completion({"tool_calls": [{**FIRST, "extra_content": DATA}]})], ["reasoning", "function_call"]),
        ([calls({**FIRST, "index": 0}), calls({"index": 0, "extra_content": DATA})], ["function_call", "reasoning"]),
    ],
    ids=["with the call", "in a whole message", "after the call"],
)
def test_opaque_data_of_a_call_are_a_detail_of_reasoning(chunks: list[Json], kinds: list[str]) -> None:
    events = decode(ChatDecoder(counting_ids()), [*chunks, chunk(finish="tool_calls")])
    assert made(events) == ONE
    found = collect(events)
    assert [item["type"] for item in found] == kinds
    assert [item["details"] for item in found if item["type"] == "reasoning"] == [[build_call_detail("a", DATA)]]


CUSTOM: dict[str, list[Json]] = {
    "in fragments": [
        {"index": 0, "id": "a", "type": "custom", "custom": {"name": "p", "input": ""}},
        {"index": 0, "custom": {"input": "x{"}},
        {"index": 0, "custom": {"input": "}"}},
    ],
    "with the name again": [
        {"index": 0, "id": "a", "type": "custom", "custom": {"name": "p", "input": "x{"}},
        {"index": 0, "id": "a", "type": "custom", "custom": {"name": "p", "input": "}"}},
    ],
}


@pytest.mark.parametrize("entries", CUSTOM.values(), ids=CUSTOM)
def test_custom_calls_keep_their_kind_and_their_text(entries: list[Json]) -> None:
    events = decode(ChatDecoder(counting_ids()), [*(calls(entry) for entry in entries), chunk(finish="tool_calls")])
    assert collect(events) == [
        {
            "id": "ctc_1",
            "type": "custom_tool_call",
            "status": "completed",
            "call_id": "a",
            "name": "p",
            "input": "x{}",
        }
    ]


def test_a_custom_call_without_input_has_no_object() -> None:
    entry = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "p"}}
    (item,) = collect(decode(ChatDecoder(counting_ids()), [calls(entry), chunk(finish="tool_calls")]))
    assert item["input"] == ""


def test_a_million_characters_of_nested_arguments_are_just_a_string() -> None:
    deep = "[" * 500_000 + "]" * 500_000
    events = decode(
        ChatDecoder(counting_ids()), [calls(call(0, id="a", name="f", arguments=deep)), chunk(finish="stop")]
    )
    assert made(events) == [("a", "f", deep)]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5)), max_size=20))
def test_numbered_calls_survive_any_cut_and_any_order(turns: list[tuple[int, int]]) -> None:
    """Three calls with an index each; every turn sends some more characters of one of them."""
    wanted = ['{"x":"aaaa"}', '{"y":[1,2]}', "{}"]
    rest = list(wanted)
    chunks = [calls(*(call(index, id=f"i{index}", name=f"n{index}") for index in range(3)))]
    for index, length in turns:
        piece, rest[index] = rest[index][:length], rest[index][length:]
        chunks.append(calls(call(index, arguments=piece)))
    chunks += [calls(call(index, arguments=text)) for index, text in enumerate(rest)]
    events = decode(ChatDecoder(counting_ids()), [*chunks, chunk(finish="tool_calls")])
    assert sorted(made(events)) == [(f"i{index}", f"n{index}", wanted[index]) for index in range(3)]


@pytest.mark.parametrize("entries", ["f", 7, {"a": {"name": "f"}}, {"0": "f"}])
def test_calls_of_an_unknown_form_are_refused(entries: Any) -> None:
    with pytest.raises(ProtocolViolation):
        ChatDecoder(counting_ids()).feed(chunk({"tool_calls": entries}))
    with pytest.raises(ProtocolViolation):
        CallNormalizer(legacy=False).normalize_delta({"tool_calls": entries})


def test_a_relay_sends_a_list_for_an_object() -> None:
    delta: Json = {"tool_calls": {"0": call(id="a", name="f", arguments="{}")}}
    assert CallNormalizer(legacy=False).normalize_delta(delta)
    (entry,) = delta["tool_calls"]
    assert (entry["index"], entry["id"], entry["function"]["name"]) == (0, "a", "f")


class _Pieces(Sequence[str]):
    """The pieces of long arguments, which count how often they are read from the beginning."""

    def __init__(self, *texts: str) -> None:
        self._texts = texts
        self.reads = 0

    def __getitem__(self, index: Any) -> Any:
        self.reads += index == 0
        return self._texts[index]

    def __len__(self) -> int:
        return len(self._texts)


PIECES: dict[str, tuple[_Pieces, bool, bool]] = {
    "none": (_Pieces(), False, False),
    "the middle": (_Pieces('{"code":"', "interface", "{"), False, False),
    "a brace in a text": (_Pieces('{"code":"', "{}"), False, True),
    "all": (_Pieces('{"code":"', '"} '), True, True),
    "all, and white space": (_Pieces('{"code":"', '"}', "\n", ""), True, True),
}


@pytest.mark.parametrize(("pieces", "complete", "read"), PIECES.values(), ids=PIECES)
def test_pieces_are_joined_only_if_the_last_one_may_end_an_object(pieces: _Pieces, complete: bool, read: bool) -> None:
    assert (are_complete(pieces), pieces.reads > 0) == (complete, read)


@pytest.mark.parametrize("whole", [False, True])
def test_a_reply_has_no_more_calls_than_models_make(whole: bool) -> None:
    entries = [call(index, id=f"c{index}", name="f", arguments="{}") for index in range(1001)]
    chunks = [completion({"tool_calls": entries})] if whole else [calls(*entries[:600]), calls(*entries[600:])]
    with pytest.raises(ProtocolViolation, match="more than 1000 tool calls"):
        decode(ChatDecoder(counting_ids()), chunks)
