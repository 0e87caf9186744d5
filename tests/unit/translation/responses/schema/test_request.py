"""Validates Responses requests."""

from typing import Any, get_args, get_type_hints

import orjson
import pytest
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from openai.types.responses.response_includable import ResponseIncludable
from openai.types.responses.response_input_item_param import ResponseInputItemParam
from openai.types.responses.tool_param import ToolParam

from translation.errors import InvalidRequest
from translation.responses.schema.request import (
    REQUEST_FIELDS,
    REQUEST_SCHEMA,
    keep_known,
    partial_request_schema,
    validate,
)

Json = dict[str, Any]


def refusal_of(body: Json) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as refused:
        validate(body)
    return refused.value


def say(*parts: Json, role: str = "user") -> Json:
    return {"input": [{"role": role, "content": list(parts)}]}


TEXT = {"type": "input_text", "text": "a"}
FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}
CUSTOM = {"type": "custom", "name": "sh", "format": {"type": "grammar", "syntax": "lark", "definition": "start: X"}}

# Every item of the API with its required fields and some optional ones.
ITEMS: list[Json] = [
    {"role": "user", "content": "a"},
    {"type": "message", "role": "developer", "content": [TEXT], "id": "msg_1", "status": "completed"},
    {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "no"}], "phase": "commentary"},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "id": None, "namespace": "n"},
    {"type": "function_call_output", "call_id": "c", "output": "a"},
    {"type": "function_call_output", "call_id": "c", "output": [TEXT, {"type": "input_image", "image_url": "u"}]},
    {"type": "custom_tool_call", "call_id": "c", "name": "sh", "input": "ls"},
    {"type": "custom_tool_call_output", "call_id": "c", "output": "a"},
    {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "s"}],
        "content": [{"type": "reasoning_text", "text": "t"}],
    },
    {"type": "reasoning", "id": "rs_1", "summary": [], "content": None, "encrypted_content": "x"},
    {"type": "item_reference", "id": "rs_1"},
    {"id": "rs_1"},
    {"type": "compaction", "encrypted_content": "x"},
    {"type": "compaction_trigger"},
    {"type": "configuration_update", "reasoning": {"effort": "low"}},
    {"type": "additional_tools", "role": "developer", "tools": [FUNCTION]},
    {"type": "file_search_call", "id": "fs_1", "queries": ["q"], "status": "searching"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
    {"type": "computer_call", "call_id": "c", "action": {"type": "click"}, "pending_safety_checks": []},
    {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "image_url": "u"}},
    {"type": "code_interpreter_call", "id": "ci_1", "container_id": "x", "code": None, "status": "interpreting"},
    {"type": "image_generation_call", "id": "ig_1", "result": "AA==", "status": "generating"},
    {"type": "local_shell_call", "call_id": "c", "action": {"type": "exec", "command": ["ls"], "env": {}}},
    {"type": "local_shell_call_output", "id": "c", "output": "a"},
    {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"], "timeout_ms": 1}},
    {
        "type": "shell_call_output",
        "call_id": "c",
        "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
    },
    {"type": "apply_patch_call", "call_id": "c", "operation": {"type": "delete_file", "path": "p"}},
    {"type": "apply_patch_call", "call_id": "c", "operation": {"type": "update_file", "path": "p", "diff": "d"}},
    {"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": "no"},
    {"type": "mcp_list_tools", "id": "l", "server_label": "s", "tools": []},
    {"type": "mcp_list_tools", "id": "l", "server_label": "s", "tools": [{"name": "f", "input_schema": {}}]},
    {"type": "mcp_call", "error": "no", "id": "m", "server_label": "s", "name": "f", "arguments": "{}"},
    {"type": "mcp_call", "error": {"content": []}, "id": "m", "server_label": "s", "name": "f", "arguments": "{}"},
    {"type": "mcp_call", "id": "m", "server_label": "s", "name": "f", "arguments": "{}", "status": "calling"},
    {"type": "mcp_approval_request", "id": "m", "server_label": "s", "name": "f", "arguments": "{}"},
    {"type": "mcp_approval_response", "approval_request_id": "m", "approve": False},
    {"type": "tool_search_call", "call_id": "c", "arguments": {"query": "q"}, "execution": "client"},
    {"type": "tool_search_output", "call_id": "c", "tools": [FUNCTION]},
    {"type": "program", "id": "p", "call_id": "c", "code": "1", "fingerprint": "f"},
    {"type": "program_output", "id": "p", "call_id": "c", "result": "1", "status": "completed"},
]

TOOLS: list[Json] = [
    FUNCTION,
    {"type": "function", "name": "f", "parameters": None, "strict": None, "description": None},
    CUSTOM,
    {"type": "custom", "name": "sh", "format": {"type": "text"}},
    {"type": "namespace", "name": "n", "description": "d", "tools": [FUNCTION, CUSTOM, {"type": "else"}]},
    {"type": "file_search", "vector_store_ids": ["v"]},
    {"type": "web_search", "external_web_access": True},
    {"type": "web_search_2025_08_26"},
    {"type": "web_search_preview"},
    {"type": "computer"},
    {"type": "computer_use_preview", "display_width": 1, "display_height": 1, "environment": "linux"},
    {"type": "mcp", "server_label": "s", "server_url": "https://mcp.example", "headers": {"a": "b"}},
    {"type": "mcp", "server_label": "s", "allowed_tools": ["f"], "require_approval": "never"},
    {"type": "mcp", "server_label": "s", "allowed_tools": {"read_only": True}, "require_approval": {"never": None}},
    {"type": "mcp", "server_label": "s", "allowed_tools": None, "require_approval": {"always": {"tool_names": ["f"]}}},
    {"type": "code_interpreter", "container": "c"},
    {"type": "code_interpreter", "container": {"type": "auto"}},
    {"type": "image_generation"},
    {"type": "local_shell"},
    {"type": "shell", "environment": {"type": "local"}},
    {"type": "apply_patch"},
    {"type": "tool_search", "execution": "client", "parameters": {"type": "object"}},
    {"type": "programmatic_tool_calling"},
    {"type": "acme:tool", "anything": 1},
]

CHOICES: list[str | Json] = [
    "none",
    "auto",
    "required",
    {"type": "function", "name": "f"},
    {"type": "custom", "name": "sh"},
    {"type": "mcp", "server_label": "s", "name": None},
    {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
    {"type": "shell"},
    {"type": "web_search"},
]

BODIES: list[Json] = [
    {"include": list(get_args(ResponseIncludable))},
    {"stop": "x", "seed": 1, "logit_bias": {"1": -100}, "thinking": True, "client_metadata": {"a": "b"}},
    {"stop": ["a", "b", "c", "d"], "presence_penalty": 2, "frequency_penalty": -2},
    {"reasoning": {"effort": "xhigh", "summary": "auto", "context": "all_turns", "mode": "new", "max_tokens": 1}},
    {"text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "strict": None}, "verbosity": "high"}},
    {"text": {"format": {"type": "json_object"}}},
    {"stream": True, "stream_options": {"include_obfuscation": False, "include_usage": True}},
    {"stream": False, "stream_options": None},
    {"conversation": {"id": "c"}, "prompt": {"id": "p", "variables": {}}, "moderation": {"model": "m"}},
    {"context_management": [{"type": "compaction", "compact_threshold": 1}], "truncation": "auto"},
    {"prompt_cache_options": {"mode": "implicit", "ttl": "12h"}, "prompt_cache_retention": "24h"},
    {"metadata": {"k" * 64: "v" * 512}, "safety_identifier": "s" * 128, "max_output_tokens": 16},
    {"unknown": {"anything": []}},
    say(
        TEXT,
        {"type": "input_file", "file_url": "u"},
        {"type": "input_audio", "input_audio": {"data": "", "format": ""}},
    ),
    say({"type": "output_text", "text": "a"}, TEXT, role="assistant"),
]


def label(given: object) -> str:
    return orjson.dumps(given).decode()[:80]


def words(annotation: Any) -> set[str]:
    """Returns every string in a Literal, or in a union of Literals."""
    return {word for inner in get_args(annotation) for word in ([inner] if isinstance(inner, str) else words(inner))}


def types_of(union: Any) -> set[str]:
    return {word for member in get_args(union) for word in words(get_type_hints(member)["type"])}


@pytest.mark.parametrize("item", ITEMS, ids=label)
def test_every_item_the_api_can_send_back_is_accepted(item: Json) -> None:
    validate({"model": "m", "input": [item]})


@pytest.mark.parametrize("tool", TOOLS, ids=label)
def test_every_tool_and_unknown_kinds_are_accepted(tool: Json) -> None:
    validate({"model": "m", "input": "a", "tools": [tool]})


@pytest.mark.parametrize("choice", CHOICES, ids=label)
def test_every_tool_choice_is_accepted(choice: str | Json) -> None:
    validate({"model": "m", "input": "a", "tool_choice": choice})


@pytest.mark.parametrize("body", BODIES, ids=label)
def test_every_parameter_is_accepted_within_its_limits(body: Json) -> None:
    validate({"model": "m", "input": "a", **body})


def test_every_parameter_of_the_official_client_is_known() -> None:
    assert types_of(ResponseInputItemParam) <= {item.get("type", "message") for item in ITEMS}
    assert types_of(ToolParam) - {tool["type"] for tool in TOOLS} == {"web_search_preview_2025_03_11"}
    assert ResponseCreateParamsBase.__annotations__.keys() <= REQUEST_FIELDS


# fault -> (the body beside a valid model and input, param, code)
REFUSALS: dict[str, tuple[Json, str, str]] = {
    "no model": ({"model": None}, "model", "invalid_type"),
    "no input": ({"input": None}, "input", "missing_required_parameter"),
    "an empty model": ({"model": ""}, "model", "invalid_value"),
    "input of another type": ({"input": 3}, "input", "invalid_type"),
    "an item of another type": ({"input": ["a"]}, "input[0]", "invalid_type"),
    "an unknown item": ({"input": [{"type": "acme"}]}, "input[0].type", "invalid_value"),
    "an item without a type": ({"input": [{"more": 1}]}, "input[0].type", "missing_required_parameter"),
    "an item whose type is a number": ({"input": [{"type": 1}]}, "input[0].type", "invalid_type"),
    "an unknown role": (say(TEXT, role="tool"), "input[0].role", "invalid_value"),
    "a message without content": ({"input": [{"role": "user"}]}, "input[0].content", "missing_required_parameter"),
    "an unknown part": (say(TEXT, {"type": "text"}), "input[0].content[1].type", "invalid_value"),
    "a part without text": (
        say(TEXT, {"type": "input_text"}),
        "input[0].content[1].text",
        "missing_required_parameter",
    ),
    "an image of nothing": (say({"type": "input_image"}), "input[0].content[0]", "invalid_value"),
    "a file of nothing": (say({"type": "input_file", "filename": "a"}), "input[0].content[0]", "invalid_value"),
    "an image in an assistant's message": (
        say({"type": "input_image", "image_url": "u"}, role="assistant"),
        "input[0].content[0].type",
        "invalid_value",
    ),
    "a summary without type": (
        {"input": [{"role": "user", "content": "a"}, {"type": "reasoning", "summary": [{"text": "a"}]}]},
        "input[1].summary[0].type",
        "missing_required_parameter",
    ),
    "arguments that are no string": (
        {"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": {}}]},
        "input[0].arguments",
        "invalid_type",
    ),
    "an output without its call": (
        {"input": [{"type": "custom_tool_call_output", "output": "a"}]},
        "input[0].call_id",
        "missing_required_parameter",
    ),
    "a tool without a type": ({"tools": [{"name": "f"}]}, "tools[0].type", "missing_required_parameter"),
    "a tool whose type is a number": ({"tools": [{"type": 1}]}, "tools[0].type", "invalid_type"),
    "allowed tools of another type": (
        {"tools": [{"type": "mcp", "server_label": "s", "allowed_tools": 5}]},
        "tools[0].allowed_tools",
        "invalid_type",
    ),
    "an unknown approval": (
        {"tools": [{"type": "mcp", "server_label": "s", "require_approval": "sometimes"}]},
        "tools[0].require_approval",
        "invalid_value",
    ),
    "a filter of another type": (
        {"tools": [{"type": "mcp", "server_label": "s", "require_approval": {"never": {"tool_names": "f"}}}]},
        "tools[0].require_approval.never.tool_names",
        "invalid_type",
    ),
    "a listed tool without a schema": (
        {"input": [{"type": "mcp_list_tools", "id": "l", "server_label": "s", "tools": [{"name": "f"}]}]},
        "input[0].tools[0].input_schema",
        "missing_required_parameter",
    ),
    "an error of another type": (
        {
            "input": [
                {"type": "mcp_call", "id": "m", "server_label": "s", "name": "f", "arguments": "{}", "error": 5},
            ]
        },
        "input[0].error",
        "invalid_type",
    ),
    "a tool that is a string": ({"tools": ["web_search"]}, "tools[0]", "invalid_type"),
    "a tool as chat writes it": (
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        "tools[0].name",
        "missing_required_parameter",
    ),
    "a tool in a namespace without a name": (
        {"tools": [FUNCTION, {"type": "namespace", "name": "n", "tools": [{"type": "function"}]}]},
        "tools[1].tools[0].name",
        "missing_required_parameter",
    ),
    "a grammar in an unknown language": (
        {"tools": [{**CUSTOM, "format": {"type": "grammar", "syntax": "bnf", "definition": ""}}]},
        "tools[0].format.syntax",
        "invalid_value",
    ),
    "an unknown choice": ({"tool_choice": "any"}, "tool_choice", "invalid_value"),
    "a choice of another type": ({"tool_choice": 1}, "tool_choice", "invalid_type"),
    "a choice of a namespace without its name": (
        {"tool_choice": {"type": "namespace"}},
        "tool_choice.name",
        "missing_required_parameter",
    ),
    "a choice in a namespace that is no name": (
        {"tool_choice": {"type": "function", "name": "f", "namespace": []}},
        "tool_choice.namespace",
        "invalid_type",
    ),
    "an allowed tool without its name": (
        {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "custom"}]}},
        "tool_choice.tools[0].name",
        "missing_required_parameter",
    ),
    "a choice without a name": (
        {"tool_choice": {"type": "function"}},
        "tool_choice.name",
        "missing_required_parameter",
    ),
    "a choice of nothing": (
        {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}},
        "tool_choice.tools",
        "invalid_value",
    ),
    "too hot": ({"temperature": 2.1}, "temperature", "invalid_value"),
    "a truth for a number": ({"temperature": True}, "temperature", "invalid_type"),
    "top_p over one": ({"top_p": 1.1}, "top_p", "invalid_value"),
    "too many rivals": ({"top_logprobs": 21}, "top_logprobs", "invalid_value"),
    "too few tokens": ({"max_output_tokens": 15}, "max_output_tokens", "invalid_value"),
    "half a token": ({"max_output_tokens": 16.5}, "max_output_tokens", "invalid_type"),
    "no tool call at all": ({"max_tool_calls": 0}, "max_tool_calls", "invalid_value"),
    "a penalty too far": ({"presence_penalty": 3}, "presence_penalty", "invalid_value"),
    "five stops": ({"stop": list("abcde")}, "stop", "invalid_value"),
    "seventeen metadata": ({"metadata": {str(key): "" for key in range(17)}}, "metadata", "invalid_value"),
    "metadata that is a number": ({"metadata": {"a": 1}}, "metadata.a", "invalid_type"),
    "a value of metadata that is too long": ({"metadata": {"a": "v" * 513}}, "metadata.a", "invalid_value"),
    "an unknown effort": ({"reasoning": {"effort": "heroic"}}, "reasoning.effort", "invalid_value"),
    "a budget of nothing": ({"reasoning": {"max_tokens": 0}}, "reasoning.max_tokens", "invalid_value"),
    "an unknown format": ({"text": {"format": {"type": "yaml"}}}, "text.format.type", "invalid_value"),
    "a schema without a schema": (
        {"text": {"format": {"type": "json_schema", "name": "n"}}},
        "text.format.schema",
        "missing_required_parameter",
    ),
    "an unknown include": ({"include": ["everything"]}, "include[0]", "invalid_value"),
    "an include that is no list": ({"include": "reasoning.encrypted_content"}, "include", "invalid_type"),
    "an unknown truncation": ({"truncation": "some"}, "truncation", "invalid_value"),
    "a prompt without id": ({"prompt": {}}, "prompt.id", "missing_required_parameter"),
    "a conversation of another type": ({"conversation": 1}, "conversation", "invalid_type"),
    "a thinking that is no boolean": ({"thinking": "yes"}, "thinking", "invalid_type"),
    "options of a stream there is not": ({"stream_options": {}}, "stream_options", "invalid_value"),
}


@pytest.mark.parametrize(("body", "param", "code"), REFUSALS.values(), ids=REFUSALS)
def test_the_field_that_is_wrong_is_named(body: Json, param: str, code: str) -> None:
    refused = refusal_of({"model": "m", "input": "a", **body})
    assert (refused.param, refused.code) == (param, code)
    assert param in refused.message


@pytest.mark.parametrize("param", ["model", "input"])
def test_required_fields_are_required(param: str) -> None:
    body = {"model": "m", "input": "a"}
    del body[param]
    refused = refusal_of(body)
    assert (refused.param, refused.code) == (param, "missing_required_parameter")


@pytest.mark.parametrize("body", [[], "a", None, 1])
def test_a_body_that_is_no_object_is_refused(body: Any) -> None:
    refused = refusal_of(body)
    assert (refused.param, refused.code) == (None, "invalid_type")


def test_an_image_or_file_without_a_source_is_refused_with_the_choices() -> None:
    refused = refusal_of({"model": "m", **say({"type": "input_image", "image_url": None})})
    assert refused.message.endswith("one of image_url, file_id is needed.")


def test_a_body_full_of_errors_is_refused_at_the_first() -> None:
    errors = [{"role": "user", "content": [{"type": "input_text"}] * 300}] * 300
    assert refusal_of({"model": "m", "input": errors}).param == "input[0].content[0].text"


def test_the_published_schema_knows_every_parameter() -> None:
    schema = REQUEST_SCHEMA()
    assert schema["properties"].keys() == REQUEST_FIELDS
    assert schema["required"] == ["model"]
    assert REQUEST_SCHEMA() is schema


def test_the_schema_of_some_parameters_is_the_schema_of_all_without_the_others() -> None:
    whole = REQUEST_SCHEMA()
    schema = partial_request_schema("counting", ["model", "input"])
    assert (schema["$id"], schema["properties"].keys()) == ("counting", {"model", "input"})
    assert schema["properties"]["input"] == whole["properties"]["input"]
    assert {**schema, "$id": whole["$id"], "properties": whole["properties"]} == whole


def test_the_known_part_leaves_out_values_that_are_not_allowed() -> None:
    body = {"model": "m", "input": "a", "temperature": 7, "service_tier": "other", "seed": 3}
    assert keep_known(body) == {"model": "m", "input": "a", "seed": 3}


def test_the_known_part_needs_input() -> None:
    with pytest.raises(InvalidRequest) as refused:
        keep_known({"model": "m", "temperature": 7})
    assert (refused.value.param, refused.value.code) == ("input", "missing_required_parameter")
    assert keep_known({"model": "m", "temperature": 7, "prompt": {"id": "p"}}) == {"model": "m", "prompt": {"id": "p"}}


def test_the_schema_of_requests_resolves_its_own_references() -> None:
    built = REQUEST_SCHEMA.__wrapped__()  # not what another test has built before
    assert built == REQUEST_SCHEMA()
    assert built["$id"] == "create-response"
    assert {"input", "model", "prompt"} <= built["properties"].keys()
