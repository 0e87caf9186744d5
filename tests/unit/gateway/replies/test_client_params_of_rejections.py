"""Errors of upstreams name a parameter in the words of the client's API, or none: for every pair of the two APIs."""

from collections.abc import Mapping

import pytest

from gateway.dialects.chat.endpoint import CHAT
from gateway.dialects.gemini.endpoint import GEMINI
from gateway.dialects.messages.endpoint import MESSAGES
from gateway.dialects.ollama.endpoint import OLLAMA_CHAT
from gateway.dialects.responses.endpoint import RESPONSES
from gateway.errors import TurnFailed
from gateway.replies.client_params import RejectionParams
from providers.errors import ContextLengthExceeded, UpstreamRejected
from providers.http.dialects import DIALECTS
from translation.representation.events import Failed
from translation.representation.json_types import Json
from translation.representation.param_names import ParamNames, find_turn_param

UPSTREAM_WORDS: dict[str, Mapping[str, str]] = {
    "chat": {
        "input": "messages[0].content",
        "limit": "max_tokens",
        "limit by its other name": "max_completion_tokens",
        "format": "response_format.json_schema",
        "tool": "tools[0].function.parameters",
        "choice": "tool_choice",
        "effort": "reasoning_effort",
        "temperature": "temperature",
        "stop": "stop",
        "own": "stream_options.include_usage",
    },
    "responses": {
        "input": "input[2].content[0]",
        "limit": "max_output_tokens",
        "format": "text.format.schema",
        "tool": "tools[0].parameters",
        "choice": "tool_choice.name",
        "effort": "reasoning.effort",
        "temperature": "temperature",
        "own": "include[0]",
    },
    "anthropic": {
        "input": "messages.0.content.0.text",
        "limit": "max_tokens",
        "format": "output_config.format.schema",
        "tool": "tools.0.input_schema",
        "choice": "tool_choice.type",
        "effort": "output_config.effort",
        "temperature": "temperature",
        "stop": "stop_sequences",
        "own": "cache_control",
    },
    "gemini": {
        "input": "contents[0].parts[0].text",
        "limit": "generationConfig.maxOutputTokens",
        "format": "generationConfig.responseJsonSchema.properties",
        "tool": "tools[0].functionDeclarations[0].parameters",
        "choice": "toolConfig.functionCallingConfig",
        "effort": "generationConfig.thinkingConfig.thinkingLevel",
        "temperature": "generationConfig.temperature",
        "stop": "generationConfig.stopSequences",
        "own": "safetySettings",
    },
    "ollama": {
        "input": "messages[0].images[0]",
        "limit": "options.num_predict",
        "format": "format.properties",
        "tool": "tools[0].function",
        "temperature": "options.temperature",
        "stop": "options.stop",
        "own": "keep_alive",
    },
}

_MESSAGES = [{"role": "user", "content": "Hi"}]
CLIENTS: dict[str, tuple[Json, Mapping[str, str]]] = {
    "chat": (
        {
            "messages": _MESSAGES,
            "max_completion_tokens": 5,
            "response_format": {"type": "json_object"},
            "tools": [],
            "tool_choice": "auto",
            "reasoning_effort": "low",
            "temperature": 1,
            "stop": ["a"],
        },
        {
            "input": "messages",
            "limit": "max_completion_tokens",
            "format": "response_format",
            "tool": "tools",
            "choice": "tool_choice",
            "effort": "reasoning_effort",
            "temperature": "temperature",
            "stop": "stop",
        },
    ),
    "responses": (
        {
            "input": "Hi",
            "max_output_tokens": 5,
            "text": {"format": {"type": "json_object"}},
            "tools": [],
            "tool_choice": "auto",
            "reasoning": {"effort": "low"},
            "temperature": 1,
        },
        {
            "input": "input",
            "limit": "max_output_tokens",
            "format": "text.format",
            "tool": "tools",
            "choice": "tool_choice",
            "effort": "reasoning.effort",
            "temperature": "temperature",
        },
    ),
    "messages": (
        {
            "messages": _MESSAGES,
            "max_tokens": 5,
            "output_config": {"format": {}, "effort": "low"},
            "tools": [],
            "tool_choice": {"type": "auto"},
            "temperature": 1,
            "stop_sequences": ["a"],
        },
        {
            "input": "messages",
            "limit": "max_tokens",
            "format": "output_config.format",
            "tool": "tools",
            "choice": "tool_choice",
            "effort": "output_config.effort",
            "temperature": "temperature",
            "stop": "stop_sequences",
        },
    ),
    "gemini": (
        {
            "contents": [{"parts": [{"text": "Hi"}]}],
            "tools": [],
            "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
            "generationConfig": {
                "maxOutputTokens": 5,
                "responseSchema": {},
                "thinkingConfig": {"thinkingLevel": "low"},
                "temperature": 1,
                "stopSequences": ["a"],
            },
        },
        {
            "input": "contents",
            "limit": "generationConfig.maxOutputTokens",
            "format": "generationConfig.responseSchema",
            "tool": "tools",
            "choice": "toolConfig.functionCallingConfig",
            "effort": "generationConfig.thinkingConfig.thinkingLevel",
            "temperature": "generationConfig.temperature",
            "stop": "generationConfig.stopSequences",
        },
    ),
    "ollama": (
        {
            "messages": _MESSAGES,
            "format": "json",
            "tools": [],
            "think": "low",
            "options": {"num_predict": 5, "temperature": 1, "stop": ["a"]},
        },
        {
            "input": "messages",
            "limit": "options.num_predict",
            "format": "format",
            "tool": "tools",
            "effort": "think",
            "temperature": "options.temperature",
            "stop": "options.stop",
        },
    ),
}

NAMES: dict[str, ParamNames] = {
    "chat": CHAT.param_names,
    "responses": RESPONSES.param_names,
    "messages": MESSAGES.param_names,
    "gemini": GEMINI.param_names,
    "ollama": OLLAMA_CHAT.param_names,
}


def reject(client: str, param: str | None, body: Json, *, overflows: bool = False) -> str | None:
    kind = ContextLengthExceeded if overflows else UpstreamRejected
    error = kind("no", status=400, param=param)
    RejectionParams(NAMES[client], body).name_param_of(error)
    return error.param


@pytest.mark.parametrize("upstream", UPSTREAM_WORDS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_refusal_names_the_clients_parameter(client: str, upstream: str) -> None:
    body, client_words = CLIENTS[client]
    turn_params = DIALECTS[upstream].turn_params  # type: ignore[index]
    for concept, word in UPSTREAM_WORDS[upstream].items():
        expected = client_words.get(concept.partition(" ")[0])
        found = reject(client, find_turn_param(word, turn_params), {"model": "m", **body})
        assert found == expected, (concept, word)


@pytest.mark.parametrize("upstream", UPSTREAM_WORDS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_refusal_of_what_the_client_did_not_send_names_nothing(client: str, upstream: str) -> None:
    body, client_words = CLIENTS[client]
    least = {key: value for key, value in body.items() if key == client_words["input"]}
    turn_params = DIALECTS[upstream].turn_params  # type: ignore[index]
    for concept, word in UPSTREAM_WORDS[upstream].items():
        if concept != "input":
            assert reject(client, find_turn_param(word, turn_params), least) is None, (concept, word)


def test_all_dialects_of_upstreams_have_words_here() -> None:
    assert UPSTREAM_WORDS.keys() == DIALECTS.keys()
    assert CLIENTS.keys() == NAMES.keys()


@pytest.mark.parametrize(
    ("param", "names", "expected"),
    [
        ("body.max_tokens", {"max_tokens": "max_output_tokens"}, "max_output_tokens"),
        ("body", {}, "body"),
        ("[0]", {}, "[0]"),
        ("a[0].b.c", {"a.b": "x", "a": "y"}, "x"),
        ("a.c", {"a.b": "x", "a": "y"}, "y"),
        ("top_k", {}, "top_k"),
    ],
)
def test_a_turns_name_is_that_of_the_longest_path(param: str, names: dict[str, str], expected: str) -> None:
    assert find_turn_param(param, names) == expected


def test_a_path_in_the_clients_own_body_is_left_as_it_is() -> None:
    body: Json = {"messages": _MESSAGES, "top_k": 5}
    assert reject("chat", "messages[0].content", body) == "messages[0].content"
    assert reject("chat", "top_k", body) == "top_k"
    assert reject("chat", "max_tokens", {**body, "max_completion_tokens": 5}) == "max_completion_tokens"
    assert reject("chat", "max_completion_tokens", {**body, "max_tokens": 5}) == "max_tokens"


@pytest.mark.parametrize("param", [None, "", "no word", "[0]", "generationConfig"])
def test_what_is_no_parameter_of_the_client_is_left_out(param: str | None) -> None:
    assert reject("chat", param, {"messages": _MESSAGES}) is None


def test_a_failure_inside_a_reply_is_named_too() -> None:
    names = RejectionParams(NAMES["chat"], {"messages": _MESSAGES, "max_tokens": 5})
    error = TurnFailed(Failed("server_error", "no", param="max_output_tokens"))
    names.name_param_of(error)
    assert error.param == error.failed.param == "max_tokens"
    overflow = Failed("context_length_exceeded", "no", param="input[3]")
    names.name_param_of_failure(overflow)
    assert overflow.param == "messages"


def test_a_context_that_is_exceeded_always_names_a_parameter() -> None:
    assert reject("responses", "max_output_tokens", {"input": "Hi"}, overflows=True) == "max_output_tokens"
    assert reject("chat", "max_output_tokens", {"messages": _MESSAGES}, overflows=True) == "max_output_tokens"
    assert reject("responses", None, {"input": "Hi"}, overflows=True) == "input"


def test_a_request_that_was_adapted_has_the_names_before_that() -> None:
    error = UpstreamRejected("no", status=400, param="max_output_tokens")
    renamed = {"max_completion_tokens": "max_response_tokens"}
    RejectionParams(NAMES["chat"], {"messages": [], "max_completion_tokens": 5}, renamed).name_param_of(error)
    assert error.param == "max_response_tokens"
