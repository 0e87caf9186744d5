"""Tools that an earlier request had are examined once, and a request is served as if it were the first with them."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest

from tests.polling import TIMEOUT_S
from translation.chat.upstream.lower import lower
from translation.errors import InvalidRequest
from translation.exact_numbers import parse_with_tool_data
from translation.gemini.upstream.lower import lower as lower_to_gemini
from translation.messages.upstream.lower import lower as lower_to_messages
from translation.ollama.upstream.lower import lower as lower_to_ollama
from translation.representation import shared_tools
from translation.representation.profile import DEFAULT_PROFILE
from translation.representation.shared_tools import SharedTools, derive, share_tools, write_json
from translation.responses.client.facts import read_facts
from translation.responses.client.initial_response import new_response
from translation.responses.client.lift import lift
from translation.responses.schema.request import validate
from translation.tools.credentials import list_credentials
from translation.tools.tool_rewriting import rewrite_tools

Json = dict[str, Any]


OTHER_UPSTREAMS = (lower_to_messages, lower_to_gemini, lower_to_ollama)


@pytest.fixture(autouse=True)
def no_known_tools() -> None:
    shared_tools._place_of.cache_clear()


def function(name: str, **more: Any) -> Json:
    return {"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}, **more}


def request(*tools: Any, **more: Any) -> Json:
    return orjson.loads(orjson.dumps({"model": "m", "input": "a", "tools": list(tools), **more}))


def serve(body: Json) -> tuple[Any, ...]:
    """Returns all that is made of a body with tools."""
    validate(body)
    turn = lift(body)
    rewritten = rewrite_tools(turn, kinds=frozenset(), hosted=frozenset()).turn
    lowered = lower(rewritten, DEFAULT_PROFILE)
    echo = new_response(body, response_id="r", created_at=0, model="m")
    # Facts about hosted tools are of tools that are no functions, so those of functions are left out.
    facts = read_facts(body)
    facts = replace(facts, tools=replace(facts.tools, hosted=()))
    return (
        lowered.body,
        lowered.losses,
        turn.losses,
        echo,
        facts,
        list_credentials(body),
        list_credentials(lowered.body),
        [tuple(lower_elsewhere(rewritten, DEFAULT_PROFILE)) for lower_elsewhere in OTHER_UPSTREAMS],
    )


TOOL_LISTS: dict[str, list[Json]] = {
    "one": [function("f")],
    "several": [function("f"), function("g", description="does g", strict=True)],
    "nulls": [function("f", description=None, strict=None)],
    "no parameters": [{"type": "function", "name": "f"}],
    "unknown keys": [function("f", color="red"), function("g", color="red", defer_loading=True)],
}


@pytest.mark.parametrize("tools", TOOL_LISTS.values(), ids=TOOL_LISTS)
def test_a_request_with_known_tools_is_served_as_the_first_was(tools: list[Json]) -> None:
    alone = serve(request(*tools))
    bodies = [share_tools(request(*tools)) for _ in range(3)]
    assert [serve(body) for body in bodies] == [alone] * 3
    assert isinstance(bodies[0]["tools"], SharedTools)
    assert bodies[0]["tools"] is bodies[1]["tools"] is bodies[2]["tools"]


@pytest.mark.parametrize("lower_elsewhere", OTHER_UPSTREAMS, ids=lambda function: function.__module__.split(".")[1])
def test_known_tools_are_lowered_once(lower_elsewhere: Callable[..., Any]) -> None:
    first, again = (lower_elsewhere(lift(share_tools(request(function("f")))), DEFAULT_PROFILE).body for _ in range(2))
    lowered = [body["tools"][0].get("functionDeclarations", body["tools"]) for body in (first, again)]
    assert lowered[0] is lowered[1]
    assert isinstance(lowered[0], SharedTools)


def test_a_mark_for_caching_is_set_in_a_request_of_its_own() -> None:
    marked = lower_to_messages(lift(share_tools(request(function("f"), prompt_cache_key="k"))), DEFAULT_PROFILE).body
    plain = lower_to_messages(lift(share_tools(request(function("f")))), DEFAULT_PROFILE).body
    assert marked["tools"] == [{**plain["tools"][0], "cache_control": {"type": "ephemeral"}}]
    assert "cache_control" not in plain["tools"][0]


def test_losses_within_known_tools_are_reported_beside_those_of_the_request() -> None:
    body = request(function("f", color="red"), text={"format": {"type": "text"}, "shade": "dark"})
    first, again = share_tools(body), share_tools(body)
    alone = {key.path: key for key in lift(body).unknown_keys}
    assert alone.keys() == {"tools.color", "text.shade"}
    for shared in (first, again):
        assert {key.path: key for key in lift(shared).unknown_keys} == alone


OTHERS: dict[str, Any] = {
    "none": [],
    "no list": "tools",
    "a web search": [function("f"), {"type": "web_search"}],
    "a server": [{"type": "mcp", "server_label": "s", "server_url": "https://a.example", "authorization": "secret"}],
    "a tool with tools": [function("f", tools=[])],
    "no objects": ["f"],
    "too many": [function("f")] * 257,
    "too long": [function("f", description="a" * 70_000)],
}


@pytest.mark.parametrize("tools", OTHERS.values(), ids=OTHERS)
def test_other_tools_are_not_kept(tools: Any) -> None:
    body: Json = {"model": "m", "input": "a", "tools": tools}
    assert [share_tools(body) for _ in range(2)] == [body, body]
    assert not isinstance(share_tools(body)["tools"], SharedTools)


def test_half_a_character_is_no_fault_here() -> None:
    body: Json = {"tools": [function("f", description="\ud800")]}
    assert share_tools(body) is body


def test_tools_are_the_same_only_if_their_json_is() -> None:
    variants = [
        function("f"),
        function("f", description=""),
        function("f", description=None),
        {"name": "f", "type": "function", "parameters": {"type": "object", "properties": {}}},
        function("f", parameters={"default": 1}),
        function("f", parameters={"default": 1.0}),
        function("f", parameters={"default": True}),
    ]
    shared = [share_tools(request(tool))["tools"] for tool in variants]
    assert len(set(map(id, shared))) == len(variants)


def test_numbers_keep_their_digits_in_known_tools() -> None:
    raw = (
        b'{"tools":[{"type":"function","name":"f","parameters":{"default":{"input":{"wei":12345678901234567890123}}}}]}'
    )
    for _ in range(2):
        assert write_json(share_tools(parse_with_tool_data(raw))) == raw


def test_a_request_with_known_tools_is_still_validated() -> None:
    serve(share_tools(request(function("f"))))
    with pytest.raises(InvalidRequest) as refused:
        validate(share_tools(request(function("f"), temperature="hot")))
    assert refused.value.param == "temperature"


def test_tools_that_were_refused_are_refused_again() -> None:
    for _ in range(2):
        with pytest.raises(InvalidRequest) as refused:
            validate(share_tools(request(function("f", parameters="none"))))
        assert refused.value.param == "tools[0].parameters"


def test_what_is_derived_is_built_once_and_errors_are_not_kept() -> None:
    calls: list[int] = []

    def count(tools: Any) -> int:
        calls.append(len(tools))
        return len(tools)

    def fail(tools: Any) -> int:
        calls.append(-1)
        raise ValueError("no tools")

    shared = share_tools(request(function("f")))["tools"]
    assert (derive(shared, count), derive(shared, count), calls) == (1, 1, [1])
    for _ in range(2):
        with pytest.raises(ValueError, match="no tools"):
            derive(shared, fail)
    assert (derive([function("f")], count), calls) == (1, [1, -1, -1, 1])


def test_only_the_last_lists_are_kept() -> None:
    first = share_tools(request(function("f0")))["tools"]
    for number in range(1, 40):
        share_tools(request(function(f"f{number}")))
    assert shared_tools._place_of.cache_info().currsize == 32
    assert share_tools(request(function("f0")))["tools"] is not first
    assert share_tools(request(function("f39")))["tools"] is share_tools(request(function("f39")))["tools"]


def test_threads_share_one_list() -> None:
    found: list[Any] = []
    barrier = threading.Barrier(4)

    def find() -> None:
        barrier.wait(TIMEOUT_S)
        found.append(share_tools(request(function("f")))["tools"])

    threads = [threading.Thread(target=find) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert len(found) == 4
    assert len(set(map(id, found))) == 1


class _Text(str):
    __slots__ = ()


class _Map(dict[str, Any]):
    __slots__ = ()


@pytest.mark.parametrize("value", [{"a": _Text("b")}, {"a": [_Map(b=1)]}, {"a": [1, 2.5, None, True]}])
def test_json_is_written_as_orjson_writes_it(value: Json) -> None:
    assert write_json(value) == orjson.dumps(value)


def test_shared_tools_are_written_once() -> None:
    shared = share_tools(request(function("f")))["tools"]
    assert write_json({"tools": shared, "more": [shared]}) == orjson.dumps({"tools": shared, "more": [shared]})
    assert shared.json is shared.json


@pytest.mark.parametrize("write", [write_json, orjson.dumps])
def test_what_is_no_json_is_not_written(write: Callable[[Json], bytes]) -> None:
    with pytest.raises(TypeError):
        write({"a": object()})
