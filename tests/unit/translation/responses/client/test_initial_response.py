"""The response object a request starts with."""

from typing import Any

import pytest

from tests.unit.support.stream_checks.responses_order import check_response
from translation.responses.client.initial_response import new_response

Json = dict[str, Any]

# Open Responses, 2026-04-24: keys a response must have, those of the second set with a value that is not null.
NULLABLE = {
    "completed_at",
    "error",
    "incomplete_details",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "reasoning",
    "safety_identifier",
    "usage",
}
NOT_NULL = {
    "background",
    "created_at",
    "frequency_penalty",
    "id",
    "metadata",
    "model",
    "object",
    "output",
    "parallel_tool_calls",
    "presence_penalty",
    "service_tier",
    "status",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
}
# ... and keys OpenAI sends beside them.
SENT_BY_OPENAI = {"user", "prompt_cache_retention"}


def new(**body: Any) -> Json:
    response = new_response({"model": "m", "input": "x", **body}, response_id="resp_1", created_at=100, model="m")
    check_response(response)
    return response


def test_every_key_that_strict_clients_require_is_present() -> None:
    response = new()
    assert response.keys() == NULLABLE | NOT_NULL | SENT_BY_OPENAI
    assert {key for key, value in response.items() if value is None} <= NULLABLE | SENT_BY_OPENAI
    assert isinstance(response["created_at"], int)
    assert response["status"] == "in_progress"


@pytest.mark.parametrize(
    ("param", "value"),
    {
        "instructions": "be brief",
        "max_output_tokens": 100,
        "max_tool_calls": 3,
        "metadata": {"a": "b"},
        "parallel_tool_calls": False,
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
        "prompt_cache_key": "k",
        "prompt_cache_retention": "24h",
        "safety_identifier": "s",
        "temperature": 0,
        "tool_choice": {"type": "function", "name": "f"},
        "top_logprobs": 5,
        "top_p": 0.5,
        "user": "u",
    }.items(),
)
def test_given_parameters_are_echoed_and_null_counts_as_missing(param: str, value: Any) -> None:
    assert new(**{param: value})[param] == value
    assert new(**{param: None}) == new()


def test_the_truncation_is_the_requested_one_or_disabled() -> None:
    assert (new(truncation="auto")["truncation"], new()["truncation"]) == ("auto", "disabled")


def test_values_chosen_by_the_server_are_null_until_known() -> None:
    response = new(service_tier="auto")
    assert (response["store"], response["background"]) == (False, False)
    assert response["service_tier"] == "default"


def test_state_parameters_are_echoed_as_the_server_stores_them() -> None:
    said = {"store": True, "background": True, "previous_response_id": "resp_0", "conversation": {"id": "conv_1"}}
    response = new(**said)
    assert {key: response[key] for key in said} == said


@pytest.mark.parametrize(
    ("given", "read_back"),
    [
        (None, {"format": {"type": "text"}}),
        ({}, {"format": {"type": "text"}}),
        ({"format": None, "verbosity": None}, {"format": {"type": "text"}}),
        ({"verbosity": "low"}, {"format": {"type": "text"}, "verbosity": "low"}),
        (
            {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}},
            {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}},
        ),
    ],
    ids=["nothing", "empty", "nulls", "verbosity", "a schema"],
)
def test_text_always_has_a_format_and_never_a_null(given: Json | None, read_back: Json) -> None:
    assert new(text=given)["text"] == read_back


def test_reasoning_always_has_effort_and_summary() -> None:
    assert new()["reasoning"] == {"effort": None, "summary": None}
    assert new(reasoning={"effort": "low", "max_tokens": 10})["reasoning"] == {
        "effort": "low",
        "summary": None,
        "max_tokens": 10,
    }


def test_a_function_is_read_back_with_all_its_keys() -> None:
    assert new(tools=[{"type": "function", "name": "f"}])["tools"] == [
        {"type": "function", "name": "f", "description": None, "parameters": None, "strict": None}
    ]


def test_other_tools_are_echoed_without_credentials() -> None:
    custom = {"type": "custom", "name": "sh"}
    mcp = {"type": "mcp", "server_label": "s", "server_url": "https://mcp.example"}
    secret = {**mcp, "authorization": "token", "headers": {"x-api-key": "secret"}}
    defaults = {"allowed_tools": None, "headers": None, "require_approval": "always", "server_description": None}
    assert new(tools=[custom, secret])["tools"] == [custom, {**mcp, **defaults}]
    assert secret["authorization"] == "token"


def test_a_tool_of_a_server_is_echoed_with_its_settings() -> None:
    mcp = {"type": "mcp", "server_label": "s", "server_url": "https://mcp.example", "require_approval": "never"}
    (echoed,) = new(tools=[{**mcp, "allowed_tools": ["a"]}])["tools"]
    assert (echoed["require_approval"], echoed["allowed_tools"], echoed["headers"]) == ("never", ["a"], None)
    (echoed,) = new(tools=[{**mcp, "require_approval": None}])["tools"]
    assert echoed["require_approval"] == "always"
    own = {"type": "mcp", "server_label": "s"}
    assert new(tools=[own])["tools"] == [own], "its rules are in the configuration"


def test_responses_share_nothing_that_grows() -> None:
    assert new()["metadata"] is not new()["metadata"]
    assert new()["output"] is not new()["output"]


def test_options_of_the_prompt_cache_are_read_back_where_they_were_sent() -> None:
    options = {"mode": "implicit", "ttl": "12h"}
    assert new(prompt_cache_options=options)["prompt_cache_options"] == options
    assert "prompt_cache_options" not in new(prompt_cache_options=None)


@pytest.mark.parametrize(
    ("sent", "echoed"),
    [
        (
            {"type": "file_search", "vector_store_ids": ["vs_1"]},
            {
                "type": "file_search",
                "vector_store_ids": ["vs_1"],
                "filters": None,
                "max_num_results": 20,
                "ranking_options": {"ranker": "auto", "score_threshold": 0},
            },
        ),
        (
            {
                "type": "file_search",
                "vector_store_ids": ["vs_1"],
                "filters": {"type": "eq", "key": "a", "value": 1},
                "max_num_results": 3,
                "ranking_options": {"score_threshold": 0.5, "ranker": None},
            },
            {
                "type": "file_search",
                "vector_store_ids": ["vs_1"],
                "filters": {"type": "eq", "key": "a", "value": 1},
                "max_num_results": 3,
                "ranking_options": {"ranker": "auto", "score_threshold": 0.5},
            },
        ),
        (
            {"type": "web_search", "search_context_size": "low"},
            {"type": "web_search", "filters": None, "search_context_size": "low", "user_location": None},
        ),
        ({"type": "custom", "name": "c"}, {"type": "custom", "name": "c"}),
    ],
)
def test_searches_are_echoed_with_their_defaults(sent: Json, echoed: Json) -> None:
    assert new(tools=[sent])["tools"] == [echoed]


def test_a_stored_prompt_is_echoed() -> None:
    body: Json = {"model": "m", "input": "Hi"}
    prompt = {"id": "pmpt_1", "version": "2", "variables": None}
    named: Json = {"response_id": "resp_1", "created_at": 1, "model": "m"}
    assert new_response(body, **named, prompt=prompt) == {**new_response(body, **named), "prompt": prompt}
    assert "prompt" not in new_response(body, **named)
