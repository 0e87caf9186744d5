"""Lifts requests of the Messages API to turns."""

from typing import Any

import pytest

from translation.errors import InvalidRequest, Unrepresentable
from translation.messages.client.lift import lift, lift_count, read_facts
from translation.messages.schema.request import COUNT_SCHEMA, REQUEST_SCHEMA, validate, validate_count
from translation.representation.json_types import Json
from translation.representation.loss import Loss, UnknownKey
from translation.representation.turn import Turn
from translation.request_facts import RelayedFeature, RequestFacts, StateFacts, ToolFacts

SCHEMA: Json = {"type": "object", "properties": {}}
CLOSED: Json = {**SCHEMA, "additionalProperties": False}
OPEN: Json = {"type": "object", "properties": {"a": {"type": "string"}}}
HELLO: list[Json] = [{"role": "user", "content": "hi"}]


def turn_of(*, relayed: bool = False, **more: Any) -> Turn:
    body = {"model": "m", "max_tokens": 5000, "messages": HELLO, **more}
    validate(body)
    return lift(body, relayed=relayed)


def test_a_plain_request_has_no_other_parameters() -> None:
    assert turn_of() == Turn(
        model="m",
        items=[{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
        tools=[],
        max_output_tokens=5000,
        stream=False,
    )


def test_the_upstreams_name_of_the_model_replaces_the_clients() -> None:
    assert lift({"model": "m", "max_tokens": 5, "messages": HELLO}, model="other").model == "other"


FIELDS: dict[str, tuple[Json, Json]] = {
    "a stream": ({"stream": True}, {"stream": True}),
    "system as text": ({"system": "Be kind."}, {"instructions": "Be kind."}),
    "no system": ({"system": ""}, {"instructions": None}),
    "system in blocks": (
        {
            "system": [
                {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": "b"},
            ]
        },
        {"instructions": "a\n\nb", "losses": ()},
    ),
    "randomness": ({"temperature": 0.5, "top_p": 0.9}, {"sampling": {"temperature": 0.5, "top_p": 0.9}}),
    "parameters of other APIs": ({"seed": 3, "presence_penalty": 1}, {"sampling": {"seed": 3, "presence_penalty": 1}}),
    "top_k is for upstreams that know it": ({"top_k": 5}, {"extra": {"top_k": 5}}),
    "stop sequences": ({"stop_sequences": ["x"]}, {"sampling": {"stop": ["x"]}}),
    "a tier": ({"service_tier": "standard_only"}, {"sampling": {"service_tier": "default"}}),
    "a user": ({"metadata": {"user_id": "u1"}}, {"sampling": {"user": "u1"}}),
    "no user": ({"metadata": {}}, {"sampling": {}}),
    "ids in the place of a user": (
        {"metadata": {"user_id": "u" * 65}},
        {"sampling": {}, "losses": (Loss("metadata.user_id", "dropped"),)},
    ),
    "thinking with a budget": (
        {"thinking": {"type": "enabled", "budget_tokens": 2000}},
        {"thinking": True, "reasoning": {"max_tokens": 2000}},
    ),
    "adaptive thinking": ({"thinking": {"type": "adaptive"}}, {"thinking": True, "reasoning": None}),
    "adaptive thinking with an effort": (
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
        {"thinking": True, "reasoning": {"effort": "high"}},
    ),
    "thinking whose text is requested": (
        {"thinking": {"type": "adaptive", "display": "summarized"}},
        {"thinking": True, "reasoning": {"summary": "auto"}},
    ),
    "thinking without its text": (
        {"thinking": {"type": "adaptive", "display": "omitted"}},
        {"thinking": True, "reasoning": None},
    ),
    "thinking between calls": (
        {"thinking": {"type": "between_tools"}},
        {
            "thinking": True,
            "losses": (),
            "unknown_keys": (UnknownKey("thinking.type", "type", {"type": "between_tools"}),),
        },
    ),
    "betas": ({"anthropic_beta": ["effort-2025-11-24"]}, {"betas": ("effort-2025-11-24",)}),
    "an effort alone": (
        {"output_config": {"effort": "low"}},
        {"thinking": None, "reasoning": {"effort": "low"}, "thinks_by_effort": False},
    ),
    "no thinking at all": (
        {"thinking": {"type": "disabled"}},
        {"thinking": False, "reasoning": None, "losses": ()},
    ),
    "no thinking, with an effort": (
        {"thinking": {"type": "disabled"}, "output_config": {"effort": "low"}},
        {"thinking": False, "reasoning": None, "losses": (Loss("output_config.effort", "dropped"),)},
    ),
    "a form of the answer": (
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        {"text_format": {"type": "json_schema", "name": "output", "schema": CLOSED, "strict": True}},
    ),
    "a form of the answer with an optional key": (
        {"output_config": {"format": {"type": "json_schema", "schema": OPEN}}},
        {"text_format": {"type": "json_schema", "name": "output", "schema": OPEN, "strict": False}, "losses": ()},
    ),
    "a form of the answer by its old name": (
        {"output_format": {"type": "json_schema", "schema": SCHEMA}},
        {"text_format": {"type": "json_schema", "name": "output", "schema": CLOSED, "strict": True}},
    ),
    "context management": (
        {"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}},
        {"losses": (Loss("context_management", "dropped"),)},
    ),
    "unknown fields": ({"speed": "fast", "container": None}, {"extra": {"speed": "fast"}}),
    "versions are of the API alone": ({"anthropic_version": "1", "anthropic_beta": ["x"]}, {"extra": {}, "losses": ()}),
}


@pytest.mark.parametrize(("params", "expected"), FIELDS.values(), ids=FIELDS)
def test_fields_of_a_request(params: Json, expected: Json) -> None:
    turn = turn_of(**params)
    assert {name: getattr(turn, name) for name in expected} == expected


TOOL: Json = {"name": "f", "input_schema": SCHEMA}
FUNCTION: Json = {"type": "function", "name": "f", "parameters": SCHEMA, "strict": False}
FOUND: list[Json] = [
    *HELLO,
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "find", "input": {}}]},
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "t1",
                "content": [{"type": "text", "text": "Found:"}, {"type": "tool_reference", "tool_name": "f"}],
            }
        ],
    },
    {"role": "user", "content": [{"type": "text", "text": "a"}]},
]

TOOLS: dict[str, tuple[Json, Json]] = {
    "a tool": ({"tools": [TOOL]}, {"tools": [FUNCTION], "losses": ()}),
    "a schema that upstreams cannot hold calls to": (
        {"tools": [{**TOOL, "input_schema": OPEN, "strict": True}]},
        {"tools": [{**FUNCTION, "parameters": OPEN}], "losses": (Loss("tools.strict", "dropped"),)},
    ),
    "its description and its schema that holds": (
        {"tools": [{**TOOL, "type": "custom", "description": "Does f.", "strict": True}]},
        {"tools": [{**FUNCTION, "parameters": CLOSED, "description": "Does f.", "strict": True}]},
    ),
    "hints are no loss": (
        {"tools": [{**TOOL, "cache_control": {"type": "ephemeral"}, "allowed_callers": ["direct"]}]},
        {"tools": [FUNCTION], "losses": ()},
    ),
    "callers that do not exist here": (
        {"tools": [{**TOOL, "allowed_callers": ["code_execution_20260120"]}]},
        {"tools": [FUNCTION], "losses": (Loss("tools.allowed_callers", "dropped"),)},
    ),
    "a deferred tool waits for its name": ({"tools": [{**TOOL, "defer_loading": True}]}, {"tools": [], "losses": ()}),
    "a deferred tool that was found": (
        {"tools": [{**TOOL, "defer_loading": True}], "messages": FOUND},
        {"tools": [FUNCTION], "losses": ()},
    ),
    "a deferred tool that only Anthropic could find": (
        {"tools": [{**TOOL, "defer_loading": True}, {"type": "tool_search_tool_regex_20251119", "name": "s"}]},
        {"tools": [FUNCTION], "losses": (Loss("tools[1]", "tool_search_tool_regex_20251119 left out"),)},
    ),
    "web search": (
        {"tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 2, "allowed_domains": ["a.com"]}]},
        {
            "tools": [{"type": "web_search", "filters": {"allowed_domains": ["a.com"]}, "max_uses": 2}],
            "losses": (),
        },
    ),
    "web search of a newer version": (
        {
            "tools": [
                {
                    "type": "web_search_20260318",
                    "name": "web_search",
                    "allowed_callers": ["direct"],
                    "cache_control": {"type": "ephemeral"},
                    "response_inclusion": "excluded",
                    "strict": False,
                }
            ]
        },
        {
            "tools": [{"type": "web_search"}],
            "losses": (Loss("tools[0].response_inclusion", "dropped"),),
        },
    ),
    "a search that is forced": (
        {
            "tools": [{"type": "web_search_20250305", "name": "web_search"}],
            "tool_choice": {"type": "tool", "name": "web_search", "disable_parallel_tool_use": True},
        },
        {"tool_choice": {"type": "web_search"}, "parallel_tool_calls": False},
    ),
    "a tool of the client with the name of a search": (
        {"tools": [{**TOOL, "name": "web_search"}], "tool_choice": {"type": "tool", "name": "web_search"}},
        {"tool_choice": {"type": "function", "name": "web_search"}},
    ),
    "web search near a place": (
        {"tools": [{"type": "web_search_20250305", "name": "web_search", "user_location": {"type": "approximate"}}]},
        {"tools": [{"type": "web_search", "user_location": {"type": "approximate"}}]},
    ),
    "any tool": ({"tool_choice": {"type": "any"}}, {"tool_choice": "required", "parallel_tool_calls": None}),
    "no tool": ({"tool_choice": {"type": "none"}}, {"tool_choice": "none"}),
    "one tool, once": (
        {"tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True}},
        {"tool_choice": {"type": "function", "name": "f"}, "parallel_tool_calls": False},
    ),
}


@pytest.mark.parametrize(("params", "expected"), TOOLS.values(), ids=TOOLS)
def test_tools_of_a_request(params: Json, expected: Json) -> None:
    turn = turn_of(**params)
    assert {name: getattr(turn, name) for name in expected} == expected


@pytest.mark.parametrize("relayed", [False, True])
def test_a_search_has_one_list_of_domains(*, relayed: bool) -> None:
    domains = {"allowed_domains": ["a.org"], "blocked_domains": ["b.org"]}
    tool = {"type": "web_search_20250305", "name": "web_search", **domains}
    body = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "a"}], "tools": [tool]}
    with pytest.raises(InvalidRequest) as refused:
        lift(body, relayed=relayed)
    assert refused.value.param == "tools[0].blocked_domains"


def test_a_tool_that_anthropic_runs_is_refused_by_name() -> None:
    with pytest.raises(Unrepresentable, match="no tool of type 'code_execution_20250825'") as refused:
        turn_of(tools=[TOOL, {"type": "code_execution_20250825", "name": "code_execution"}])
    assert refused.value.param == "tools[1]"


def test_a_relayed_request_loses_nothing() -> None:
    turn = turn_of(
        relayed=True,
        tools=[{"type": "code_execution_20250825", "name": "code_execution"}],
        messages=[{"role": "user", "content": [{"type": "container_upload", "file_id": "f"}]}],
        context_management={"edits": []},
    )
    assert (turn.items, turn.tools, turn.losses) == ([], [], ())


REFUSED: dict[str, tuple[Json, str, str]] = {
    "a budget beyond the limit": (
        {"thinking": {"type": "enabled", "budget_tokens": 5000}},
        "max_tokens",
        "'max_tokens' is 5000: it must be greater than 'thinking.budget_tokens', which is 5000.",
    ),
    "a small budget": (
        {"thinking": {"type": "enabled", "budget_tokens": 5}},
        "thinking.budget_tokens",
        "Invalid value for 'thinking.budget_tokens': it must be at least 1024, but got 5.",
    ),
    "a thread": (
        {"thread": {"type": "create"}},
        "thread",
        "Threads are not kept here: send the whole conversation, without 'thread'.",
    ),
    "a tool without a schema": (
        {"tools": [{"name": "f"}]},
        "tools[0].input_schema",
        "Missing required parameter: 'tools[0].input_schema'.",
    ),
    "a block without a type": (
        {"messages": [{"role": "user", "content": [{"text": "a"}]}]},
        "messages[0].content[0].type",
        "Missing required parameter: 'messages[0].content[0].type'.",
    ),
    "a block whose type is no text": (
        {"messages": [{"role": "user", "content": [{"type": 1}]}]},
        "messages[0].content[0].type",
        "Invalid type for 'messages[0].content[0].type': expected a string, but got an integer instead.",
    ),
    "a block that is no object": (
        {"messages": [{"role": "user", "content": [3]}]},
        "messages[0].content[0]",
        "Invalid type for 'messages[0].content[0]': expected an object, but got an integer instead.",
    ),
    "an unknown role": (
        {"messages": [{"role": "robot", "content": "a"}]},
        "messages[0].role",
        "Invalid value for 'messages[0].role': 'robot'. Expected 'user', 'assistant' or 'system'.",
    ),
    "a version that would end its header": (
        {"anthropic_version": "2023-06-01\r\nx-evil: 1"},
        "anthropic_version",
        "Invalid value for 'anthropic_version': it must match ^[A-Za-z0-9._-]{1,100}$.",
    ),
    "a version that ends with a line break": (
        {"anthropic_version": "2023-06-01\n"},
        "anthropic_version",
        "Invalid value for 'anthropic_version': it must match ^[A-Za-z0-9._-]{1,100}$.",
    ),
    "a version that no header can carry": (
        {"anthropic_version": "€"},
        "anthropic_version",
        "Invalid value for 'anthropic_version': it must match ^[A-Za-z0-9._-]{1,100}$.",
    ),
    "a beta that would begin a header": (
        {"anthropic_beta": ["a", "b\r\nx-evil: 1"]},
        "anthropic_beta[1]",
        "Invalid value for 'anthropic_beta[1]': it must match ^[A-Za-z0-9._-]{1,100}$.",
    ),
    "more betas than a header should have": (
        {"anthropic_beta": ["a"] * 65},
        "anthropic_beta",
        "Invalid value for 'anthropic_beta': at most 64 entries are allowed.",
    ),
}


@pytest.mark.parametrize(("params", "param", "message"), REFUSED.values(), ids=REFUSED)
def test_malformed_requests_are_refused_by_name(params: Json, param: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        turn_of(**params)
    assert (refused.value.param, refused.value.message) == (param, message)


def test_a_budget_for_interleaved_thinking_may_exceed_the_limit() -> None:
    turn = turn_of(
        thinking={"type": "enabled", "budget_tokens": 9000}, anthropic_beta=["interleaved-thinking-2025-05-14"]
    )
    assert turn.reasoning == {"max_tokens": 9000}


def test_tokens_are_counted_without_a_limit() -> None:
    validate_count({"model": "m", "messages": HELLO, "tools": []})
    with pytest.raises(InvalidRequest, match=r"'messages\[0\]\.content'"):
        validate_count({"model": "m", "messages": [{"role": "user"}]})


def test_a_compaction_does_not_change_the_count() -> None:
    body: Json = {"model": "m", "messages": HELLO}
    assert lift_count({**body, "compaction": {"type": "auto"}}) == lift(body)


SERVER: Json = {"type": "url", "name": "s", "url": "https://e.org", "authorization_token": "secret"}
HOSTED_SERVER: Json = {
    "type": "mcp",
    "server_label": "s",
    "server_url": "https://e.org",
    "require_approval": "never",
    "authorization": "secret",
}
ADD: Json = {"name": "add", "input_schema": SCHEMA}
SEARCH: Json = {"type": "web_search_20250305", "name": "web_search"}
TYPED: frozenset[RelayedFeature] = frozenset({"typed_tools"})
SWITCHED: frozenset[RelayedFeature] = frozenset({"thinking"})

FACTS: dict[str, tuple[Json, RequestFacts]] = {
    "nothing": ({}, RequestFacts()),
    "nothing, as null": (dict.fromkeys(("stream", "thread", "tools", "mcp_servers", "extensions")), RequestFacts()),
    "a stream": ({"stream": True}, RequestFacts(streams=True)),
    "a thread": ({"thread": {"type": "new"}}, RequestFacts(state=StateFacts(thread={"type": "new"}))),
    "tools of the client": ({"tools": [ADD]}, RequestFacts(tools=ToolFacts())),
    "a search among tools": (
        {"tools": [ADD, SEARCH]},
        RequestFacts(tools=ToolFacts(hosted=({"type": "web_search"},)), features=TYPED),
    ),
    "a server": (
        {"mcp_servers": [SERVER]},
        RequestFacts(
            tools=ToolFacts(hosted=(HOSTED_SERVER,), servers=(HOSTED_SERVER,), credentials=("secret",)), features=TYPED
        ),
    ),
    "a server before a search": (
        {"mcp_servers": [SERVER], "tools": [SEARCH]},
        RequestFacts(
            tools=ToolFacts(
                hosted=(HOSTED_SERVER, {"type": "web_search"}), servers=(HOSTED_SERVER,), credentials=("secret",)
            ),
            features=TYPED,
        ),
    ),
    "extensions": ({"extensions": True}, RequestFacts(has_extensions=True)),
    "thinking": ({"thinking": {"type": "adaptive"}}, RequestFacts(features=SWITCHED, starts_thinking=True)),
    "no thinking": ({"thinking": {"type": "disabled"}}, RequestFacts(features=SWITCHED)),
}


@pytest.mark.parametrize(("params", "facts"), FACTS.values(), ids=FACTS)
def test_each_parameter_is_one_fact(params: Json, facts: RequestFacts) -> None:
    assert read_facts({"model": "m", "messages": HELLO, **params}) == facts


def test_a_limit_of_no_tokens_is_for_anthropic_alone() -> None:
    assert turn_of(max_tokens=0, relayed=True).max_output_tokens == 0
    with pytest.raises(InvalidRequest, match="'max_tokens': it must be at least 1") as refused:
        turn_of(max_tokens=0)
    assert refused.value.param == "max_tokens"


def test_schemas_are_published() -> None:
    assert REQUEST_SCHEMA()["required"] != COUNT_SCHEMA()["required"]


MARK: Json = {"type": "ephemeral", "ttl": "1h"}
MARKED_TEXT: Json = {"type": "text", "text": "a", "cache_control": MARK}
MARKS: dict[str, Json] = {
    "the request": {"cache_control": MARK},
    "the system prompt": {"system": [{"type": "text", "text": "a"}, MARKED_TEXT]},
    "a tool": {"tools": [{"name": "f", "input_schema": {"type": "object"}, "cache_control": MARK}]},
    "the newest message": {"messages": [{"role": "user", "content": [MARKED_TEXT]}]},
    "one with keys of betas": {"cache_control": {**MARK, "scope": "global"}},
}


@pytest.mark.parametrize("params", MARKS.values(), ids=MARKS)
def test_cache_control_is_lifted_without_a_loss(params: Json) -> None:
    turn = lift({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "a"}], **params})
    assert (turn.cache_control, list(turn.losses)) == (MARK, [])


@pytest.mark.parametrize("mark", [None, "ephemeral", {"type": "another"}])
def test_invalid_cache_control_is_ignored(mark: Any) -> None:
    block = {**MARKED_TEXT, "cache_control": mark}
    assert (
        lift({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": [block]}]}).cache_control is None
    )
