"""Builds the response object that a run starts with: the client's parameters echoed, and no output yet."""

from collections.abc import Mapping, Sequence
from typing import Any

from translation.representation.json_types import Json, mapping_or_empty
from translation.representation.shared_tools import SharedTools, derive
from translation.tools.credentials import remove_credentials
from translation.tools.searches import is_search_tool

_ECHOED_DEFAULTS: dict[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "prompt_cache_key": None,
    "prompt_cache_retention": None,
    "safety_identifier": None,
    "temperature": 1.0,
    "tool_choice": "auto",
    "top_logprobs": 0,
    "top_p": 1.0,
    "user": None,
}
"""Parameters that a response echoes unchanged -> their value if the request has none."""

_INITIAL_RESPONSE: dict[str, Any] = {
    "id": "",
    "object": "response",
    "created_at": 0,
    "status": "in_progress",
    "background": False,
    "completed_at": None,
    "error": None,
    "incomplete_details": None,
    "metadata": None,
    "model": "",
    "output": None,
    "previous_response_id": None,
    "reasoning": None,
    "service_tier": "default",
    "store": False,
    "text": None,
    "tools": None,
    "truncation": "disabled",
    "usage": None,
    **_ECHOED_DEFAULTS,
}
"""A response with its keys in order. It is copied and filled in, because building so many keys takes three times as
long. Keys whose value is an object are None here and get a new object in each copy."""

_ECHOED_PARAMS = frozenset({*_ECHOED_DEFAULTS, "truncation", "conversation", "prompt_cache_options"})
"""Parameters that a response echoes if the request has them."""

_MERGED_PARAMS = frozenset({"reasoning", "text"})
"""Parameters whose keys replace those of an object that a response always has."""

_FUNCTION_DEFAULTS = {"description": None, "parameters": None, "strict": None}
"""Keys that an echoed function tool always has. Source: Open Responses."""

_MCP_DEFAULTS = {"allowed_tools": None, "headers": None, "require_approval": None, "server_description": None}
"""Keys that an echoed tool of an MCP server always has. Source: recorded responses of OpenAI."""


_FILE_SEARCH_DEFAULTS = {"filters": None, "max_num_results": 20}
_RANKING_DEFAULTS = {"ranker": "auto", "score_threshold": 0}
"""What an echoed file search always has. Source: recorded responses of OpenAI."""

_WEB_SEARCH_DEFAULTS = {"filters": None, "search_context_size": "medium", "user_location": None}
"""What an echoed web search always has. Source: recorded responses of OpenAI."""


def new_response(body: Json, *, response_id: str, created_at: int, model: str, prompt: Json | None = None) -> Json:
    """Returns a response with the status `in_progress` for a validated request `body`.

    It has every key that OpenAI sends and every key that Open Responses requires, so strict readers accept it.
    `created_at` is in seconds since 1970, and `prompt` the stored prompt that is in the body. `store` and `background`
    are taken from `body`: the caller sets them there to what the gateway really does.
    """
    get = body.get
    tools = get("tools")
    response = {
        **_INITIAL_RESPONSE,
        "id": response_id,
        "created_at": created_at,
        "model": model,
        "background": bool(get("background")),
        "store": bool(get("store")),
        "metadata": get("metadata") or {},
        "output": [],
        "previous_response_id": get("previous_response_id"),
        "reasoning": {"effort": None, "summary": None},
        "text": {"format": {"type": "text"}},
        "tools": derive(tools, _echo_tools) if tools else [],
    }
    if not _MERGED_PARAMS.isdisjoint(body):
        for name in _MERGED_PARAMS:
            response[name] |= _without_nulls(body.get(name) or {})
    for key in _ECHOED_PARAMS.intersection(body):
        if body[key] is not None:
            response[key] = body[key]
    if prompt is not None:
        response["prompt"] = prompt
    return response


def _without_nulls(values: Mapping[str, Any]) -> Json:
    return {key: value for key, value in values.items() if value is not None}


def _echo_tools(tools: Sequence[Json]) -> list[Json]:
    echoed = [_echo_tool(tool) for tool in remove_credentials(tools)]
    return SharedTools(echoed) if isinstance(tools, SharedTools) else echoed


def _echo_tool(tool: Json) -> Json:
    if tool.get("type") == "function":
        return _FUNCTION_DEFAULTS | tool
    if tool.get("type") == "mcp" and tool.get("server_url"):  # what holds for others is in the configuration
        return _MCP_DEFAULTS | tool | {"require_approval": tool.get("require_approval") or "always"}
    if tool.get("type") == "file_search":
        ranking = _RANKING_DEFAULTS | _without_nulls(mapping_or_empty(tool.get("ranking_options")))
        return _FILE_SEARCH_DEFAULTS | _without_nulls(tool) | {"ranking_options": ranking}
    return _WEB_SEARCH_DEFAULTS | _without_nulls(tool) if is_search_tool(tool) else tool
