"""Maps function calls of the upstream to calls of the tools that the client declared."""

from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from openai.types.responses import ResponseOutputItem
from pydantic import TypeAdapter

from providers.scripted.schema_instances import build_minimal_instance
from tests.unit.support.event_grammar import EventGrammar
from tests.unit.support.stream_checks.responses_order import check_stream
from tests.unit.support.translator_drivers import counting_ids, decode, feed_to_end
from translation.chat.upstream.decode import ChatDecoder
from translation.representation.collector import TurnCollector
from translation.representation.events import (
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    Opaque,
    PartEnded,
    Started,
    Usage,
)
from translation.representation.items import new_function_call
from translation.representation.json_types import Item, Json
from translation.representation.turn import Turn
from translation.responses.client.encode import ResponsesEncoder
from translation.responses.client.initial_response import new_response
from translation.tools.call_mapper import ToolCallMapper
from translation.tools.kinds import CLIENT_TOOL_KINDS
from translation.tools.tool_rewriting import rewrite_tools

TOOLS: list[Json] = [
    {"type": "function", "name": "get_weather"},
    {"type": "custom", "name": "exec"},
    {
        "type": "namespace",
        "name": "mcp__adder",
        "tools": [{"type": "function", "name": "add"}, {"type": "custom", "name": "run"}],
    },
    {"type": "shell"},
    {"type": "local_shell"},
    {"type": "apply_patch"},
    {"type": "tool_search", "execution": "client"},
    {"type": "computer"},
    {"type": "computer_use_preview", "display_width": 1, "display_height": 1, "environment": "mac"},
]
STARTED, FINISHED = Started("m"), Finished("tool_calls")


def calls(tools: Sequence[Json] = TOOLS, kinds: frozenset[str] = frozenset({"function"})) -> ToolCallMapper:
    made = rewrite_tools(Turn(model="m", items=[], tools=tools), kinds=kinds, hosted=frozenset()).call_mapper
    assert made is not None
    return made


def call(index: int, name: str, *arguments: str, ended: ItemEnded | None = None) -> list[Event]:
    return [
        ItemStarted(index, new_function_call(f"fc_{index}", call_id=f"call_{index}", name=name)),
        *(Delta(index, None, text) for text in arguments),
        PartEnded(index, None),
        ended or ItemEnded(index),
    ]


def fed(events: Sequence[Event], mapped: ToolCallMapper | None = None) -> list[Event]:
    """Feeds all events, one at a time, and checks the result by the grammar."""
    mapped = mapped or calls()
    out = [new for event in events for new in mapped.feed([event])]
    EventGrammar().check(out)
    return out


def items_of(events: Sequence[Event]) -> list[Item]:
    collector = TurnCollector()
    collector.feed(fed([STARTED, *events, FINISHED]))
    return collector.items


CUSTOM = {"id": "ctc_0", "type": "custom_tool_call", "call_id": "call_0"}

CASES: dict[str, tuple[str, Any, Json]] = {
    "a plain function": (
        "get_weather",
        {"city": "Paris"},
        {
            "id": "fc_0",
            "type": "function_call",
            "status": "completed",
            "call_id": "call_0",
            "name": "get_weather",
            "arguments": '{"city":"Paris"}',
        },
    ),
    "a custom tool": ("exec", {"input": "ls\n"}, {**CUSTOM, "name": "exec", "input": "ls\n"}),
    "a custom tool of a namespace": (
        "mcp__adder__run",
        {"input": "x"},
        {**CUSTOM, "name": "run", "namespace": "mcp__adder", "input": "x"},
    ),
    "a function of a namespace": (
        "mcp__adder__add",
        {"a": 1},
        {
            "id": "fc_0",
            "type": "function_call",
            "status": "completed",
            "call_id": "call_0",
            "name": "add",
            "namespace": "mcp__adder",
            "arguments": '{"a":1}',
        },
    ),
    "shell": (
        "shell",
        {"commands": ["ls", "pwd"], "timeout_ms": 5, "max_output_length": "many"},
        {"id": "sh_0", "type": "shell_call", "action": {"commands": ["ls", "pwd"], "timeout_ms": 5}},
    ),
    "shell with one command as text": (
        "shell",
        {"commands": "ls"},
        {"id": "sh_0", "type": "shell_call", "action": {"commands": ["ls"]}},
    ),
    "local shell": (
        "local_shell",
        {"command": ["ls"], "working_directory": "/", "env": {"A": "b", "C": 1}},
        {
            "id": "lsh_0",
            "type": "local_shell_call",
            "action": {"type": "exec", "command": ["ls"], "env": {"A": "b"}, "working_directory": "/"},
        },
    ),
    "apply_patch creates": (
        "apply_patch",
        {"type": "create_file", "path": "a", "diff": "+b", "why": "asked"},
        {
            "id": "apc_0",
            "type": "apply_patch_call",
            "operation": {"type": "create_file", "path": "a", "diff": "+b"},
        },
    ),
    "apply_patch deletes": (
        "apply_patch",
        {"operation": {"type": "delete_file", "path": "a", "diff": ""}},
        {"id": "apc_0", "type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a"}},
    ),
    "tool search": (
        "tool_search",
        {"query": "sums"},
        {"id": "tsc_0", "type": "tool_search_call", "arguments": {"query": "sums"}, "execution": "client"},
    ),
    "computer": (
        "computer",
        {"actions": [{"type": "click", "x": 1, "y": 2}, {"type": "screenshot"}]},
        {
            "id": "cu_0",
            "type": "computer_call",
            "actions": [{"type": "click", "button": "left", "x": 1, "y": 2}, {"type": "screenshot"}],
            "pending_safety_checks": [],
        },
    ),
    "computer, one action": (
        "computer_use_preview",
        {"action": {"type": "type", "text": "hi"}},
        {
            "id": "cu_0",
            "type": "computer_call",
            "action": {"type": "type", "text": "hi"},
            "pending_safety_checks": [],
        },
    ),
}


@pytest.mark.parametrize(("name", "arguments", "expected"), CASES.values(), ids=CASES)
def test_a_call_becomes_the_kind_that_the_client_declared(name: str, arguments: Any, expected: Json) -> None:
    text = orjson.dumps(arguments).decode()
    whole = expected if "name" in expected else {"call_id": "call_0", "status": "completed", **expected}
    assert items_of(call(0, name, *text)) == [whole]
    assert items_of(call(0, name, text)) == [whole]


@pytest.mark.parametrize(("name", "arguments", "expected"), CASES.values(), ids=CASES)
def test_every_item_is_one_the_official_client_accepts(name: str, arguments: Any, expected: Json) -> None:
    for event in fed([STARTED, *call(0, name, orjson.dumps(arguments).decode()), FINISHED]):
        if isinstance(event, ItemStarted) or (isinstance(event, ItemEnded) and event.item):
            TypeAdapter(ResponseOutputItem).validate_python(event.item, strict=True)


@pytest.mark.parametrize(("name", "arguments", "expected"), CASES.values(), ids=CASES)
def test_an_upstreams_own_final_item_is_mapped_too(name: str, arguments: Any, expected: Json) -> None:
    text = orjson.dumps(arguments).decode()
    final = new_function_call("fc_0", call_id="call_0", name=name) | {"arguments": text, "status": "completed"}
    whole = expected if "name" in expected else {"call_id": "call_0", "status": "completed", **expected}
    assert items_of(call(0, name, ended=ItemEnded(0, final))) == [whole]


NO_SUCH_CALL: dict[str, tuple[str, str]] = {
    "no JSON": ("shell", '{"commands": ["ls"'),
    "no object": ("shell", '["ls"]'),
    "no commands": ("shell", "{}"),
    "nothing at all": ("shell", ""),
    "an empty list": ("shell", '{"commands":[]}'),
    "commands that are no text": ("shell", '{"commands":[1]}'),
    "no command": ("local_shell", '{"command":5}'),
    "no path": ("apply_patch", '{"type":"delete_file"}'),
    "an unknown operation": ("apply_patch", '{"type":"move_file","path":"a"}'),
    "no diff": ("apply_patch", '{"type":"create_file","path":"a"}'),
    "no actions": ("computer", "{}"),
    "an unknown action": ("computer", '{"actions":[{"type":"screenshot"},{"type":"dance"}]}'),
    "an action without its keys": ("computer", '{"actions":[{"type":"move","x":1}]}'),
    "an action that is no object": ("computer_use_preview", '{"action":"click"}'),
}


@pytest.mark.parametrize(("name", "arguments"), NO_SUCH_CALL.values(), ids=NO_SUCH_CALL)
def test_arguments_that_make_no_such_call_stay_a_function_call(name: str, arguments: str) -> None:
    events = [STARTED, *call(0, name, arguments), FINISHED]
    assert fed(events) == events


def test_a_call_that_was_cut_off_stays_a_function_call() -> None:
    events = [STARTED, *call(0, "shell", '{"commands":["rm -r a"]}', ended=ItemEnded(0, status="incomplete"))]
    assert fed(events) == events


def test_the_environment_of_the_tool_is_on_its_calls() -> None:
    mapped = calls([{"type": "shell", "environment": {"type": "local"}}])
    ended = fed([STARTED, *call(0, "shell", '{"commands":["ls"]}')], mapped)[-1]
    assert isinstance(ended, ItemEnded)
    assert ended.item is not None
    assert ended.item["environment"] == {"type": "local"}


def test_freeform_input_streams_as_it_arrives() -> None:
    assert fed([STARTED, *call(0, "exec", '{"input":"', "a", "\\", 'n"', "}")]) == [
        STARTED,
        ItemStarted(0, {**CUSTOM, "name": "exec", "input": ""}),
        Delta(0, None, "a"),
        Delta(0, None, "\n"),
        PartEnded(0, None),
        ItemEnded(0),
    ]


def test_buffered_freeform_input_is_sent_at_its_end() -> None:
    started, _part_ended, ended = call(0, "exec")
    for text, expected in ((' {"in', ' {"in'), ('{"code":"x"}', '{"code":"x"}')):
        assert fed([STARTED, started, Delta(0, None, text), ended])[2:] == [Delta(0, None, expected), ended]


def test_whole_calls_keep_their_place_among_calls_that_interleave() -> None:
    shell, plain = call(0, "shell", '{"commands":', '["ls"]}'), call(1, "get_weather", "{}")
    patch = call(2, "apply_patch", '{"type":"delete_file",', '"path":"a"}')
    mixed = [STARTED, shell[0], plain[0], patch[0], shell[1], *plain[1:], patch[1], *shell[2:], *patch[2:], FINISHED]
    collector = TurnCollector()
    collector.feed(fed(mixed))
    assert [item["type"] for item in collector.items] == ["shell_call", "function_call", "apply_patch_call"]
    assert collector.finished == FINISHED


def test_metadata_does_not_wait_for_a_call() -> None:
    mapped = calls()
    noted = Noted(usage=Usage(input=1))
    mapped.feed([STARTED, call(0, "shell")[0]])
    assert mapped.feed([noted]) == [noted]


def test_a_turn_that_fails_inside_a_call_loses_no_output() -> None:
    failed = Failed("upstream_truncated", "gone")
    plain, custom = call(1, "get_weather", "{}"), call(2, "exec", '{"input":"a')
    events = [STARTED, *call(0, "shell", '{"comm')[:2], *plain, *custom[:2], failed]
    out = fed(events)
    assert out[:-3] == [STARTED, *call(0, "shell", '{"comm')[:2], *plain]
    assert out[-3:] == [
        ItemStarted(2, {**CUSTOM, "id": "ctc_2", "call_id": "call_2", "name": "exec", "input": ""}),
        Delta(2, None, "a"),
        failed,
    ]


def test_snapshots_of_an_upstream_do_not_reveal_the_mapped_functions() -> None:
    own = {"id": "resp_1", "service_tier": "default", "tools": [], "tool_choice": "auto", "output": []}
    kept = {"id": "resp_1", "service_tier": "default"}
    assert calls().feed([Started("m", response=own), Finished("stop", response=own)]) == [
        Started("m", response=kept),
        Finished("stop", response=kept),
    ]


def test_a_custom_call_the_upstream_knows_gets_its_namespace_back() -> None:
    mapped = calls(kinds=frozenset({"function", "custom"}))
    started = {**CUSTOM, "name": "mcp__adder__run", "input": ""}
    final = {**started, "input": "x"}
    events = fed([STARTED, ItemStarted(0, started), Delta(0, None, "x"), ItemEnded(0, final)], mapped)
    assert events[1:] == [
        ItemStarted(0, {**started, "name": "run", "namespace": "mcp__adder"}),
        Delta(0, None, "x"),
        ItemEnded(0, {**final, "name": "run", "namespace": "mcp__adder"}),
    ]


def test_other_events_are_unchanged() -> None:
    message = {"id": "item", "type": "message", "role": "assistant", "content": []}
    events: list[Event] = [STARTED, ItemStarted(0, message), ItemEnded(0), Opaque("chat", {}), FINISHED]
    assert fed(events) == events


def test_an_id_without_a_prefix_gets_one() -> None:
    started = {**new_function_call("7", call_id="c", name="exec")}
    [event] = calls().feed([ItemStarted(0, started)])
    assert isinstance(event, ItemStarted)
    assert event.item["id"] == "ctc_7"


def test_a_chat_stream_of_rewritten_calls_is_a_stream_of_the_api() -> None:
    def called(index: int, name: str | None, arguments: str) -> Json:
        identity = {"id": f"call_{index}", "type": "function"} if name else {}
        function = {"name": name, "arguments": arguments} if name else {"arguments": arguments}
        delta = {"tool_calls": [{"index": index, **identity, "function": function}]}
        return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}

    chunks = [
        called(0, "shell", '{"commands":'),
        called(1, "exec", '{"input":"print('),
        called(0, None, '["ls"]}'),
        called(1, None, '1)"}'),
        called(2, "mcp__adder__add", '{"a":1}'),
        {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    ]
    head = new_response({"model": "m", "input": "hi"}, response_id="resp_1", created_at=100, model="m")
    encoder = ResponsesEncoder(head, lambda: 105)
    events = check_stream(feed_to_end(encoder, calls().feed(decode(ChatDecoder(counting_ids()), chunks))))
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["shell_call", "custom_tool_call", "function_call"]
    assert output[0]["action"] == {"commands": ["ls"]}
    assert output[1]["input"] == "print(1)"
    assert (output[2]["name"], output[2]["namespace"]) == ("add", "mcp__adder")


@pytest.mark.parametrize("kind", CLIENT_TOOL_KINDS)
def test_the_least_that_a_kinds_schema_allows_is_a_call_of_that_kind(kind: str) -> None:
    tool = {"type": kind, "display_width": 1, "display_height": 1, "environment": "linux"}
    least = build_minimal_instance(CLIENT_TOOL_KINDS[kind].describe(tool)["parameters"])
    assert CLIENT_TOOL_KINDS[kind].parse_arguments(least, tool) is not None, least
