"""The response object a request starts with: what the client asked for, read back, and nothing done yet."""

from typing import Any

from translation.json_types import Json

_DEFAULTS: dict[str, Any] = {
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
"""Parameters that are read back as given, and what they read when they were not."""

_GIVEN = frozenset({*_DEFAULTS, "conversation"})

_FUNCTION = {"description": None, "parameters": None, "strict": None}
"""Keys a function tool is read back with, given or not. Source: Open Responses."""

_SECRETS = frozenset({"authorization", "headers"})
"""Keys of an `mcp` tool that are credentials: taken, never read back."""


def new_response(body: Json, *, response_id: str, created_at: int, model: str) -> Json:
    """A response in progress for a validated request `body`.

    It has every key OpenAI sends and every key Open Responses requires, so it satisfies strict readers of both. What
    the server decides reads as `body` has it: whoever calls says there what is really stored or in the background.
    """
    given = {key: value for key, value in body.items() if key in _GIVEN and value is not None}
    return {
        "id": response_id,
        "object": "response",
        "created_at": created_at,
        "status": "in_progress",
        "background": bool(body.get("background")),
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        "metadata": body.get("metadata") or {},
        "model": model,
        "output": [],
        "previous_response_id": body.get("previous_response_id"),
        "reasoning": {"effort": None, "summary": None, **_without_nulls(body.get("reasoning"))},
        "service_tier": "default",
        "store": bool(body.get("store")),
        "text": {"format": {"type": "text"}, **_without_nulls(body.get("text"))},
        "tools": [_read_back(tool) for tool in body["tools"]] if body.get("tools") else [],
        "truncation": body.get("truncation") or "disabled",
        "usage": None,
        **_DEFAULTS,
        **given,
    }


def _without_nulls(given: Json | None) -> Json:
    return {key: value for key, value in given.items() if value is not None} if given else {}


def _read_back(tool: Json) -> Json:
    match tool.get("type"):
        case "function":
            return _FUNCTION | tool
        case "mcp":
            return {key: value for key, value in tool.items() if key not in _SECRETS}
        case _:
            return tool
