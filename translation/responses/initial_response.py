"""The response object a request starts with: what the client asked for, read back, and nothing done yet."""

from typing import Any

from translation.representation.json_types import Json

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
"""Parameters that are read back as given, and what they read when they were not."""

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
"""A response in the order of its keys. Copied and filled in: with that many keys, building one takes three times as
long. What is None here and an object there is made for each."""

_ECHOED_PARAMS = frozenset({*_ECHOED_DEFAULTS, "truncation", "conversation"})
"""Parameters that are read back where they were given."""

_FUNCTION_DEFAULTS = {"description": None, "parameters": None, "strict": None}
"""Keys a function tool is read back with, given or not. Source: Open Responses."""

_SECRET_KEYS = frozenset({"authorization", "headers"})
"""Keys of an `mcp` tool that are credentials: taken, never read back."""


def new_response(body: Json, *, response_id: str, created_at: int, model: str) -> Json:
    """A response in progress for a validated request `body`.

    It has every key OpenAI sends and every key Open Responses requires, so it satisfies strict readers of both. What
    the server decides reads as `body` has it: whoever calls says there what is really stored or in the background.
    """
    response = _INITIAL_RESPONSE.copy()
    response["id"] = response_id
    response["created_at"] = created_at
    response["model"] = model
    response["background"] = bool(body.get("background"))
    response["store"] = bool(body.get("store"))
    response["metadata"] = body.get("metadata") or {}
    response["output"] = []
    response["previous_response_id"] = body.get("previous_response_id")
    response["reasoning"] = {"effort": None, "summary": None}
    if reasoning := body.get("reasoning"):
        response["reasoning"] |= _without_nulls(reasoning)
    response["text"] = {"format": {"type": "text"}}
    if text := body.get("text"):
        response["text"] |= _without_nulls(text)
    response["tools"] = [_echo_tool(tool) for tool in body["tools"]] if body.get("tools") else []
    for key in _ECHOED_PARAMS.intersection(body):
        if body[key] is not None:
            response[key] = body[key]
    return response


def _without_nulls(given: Json) -> Json:
    return {key: value for key, value in given.items() if value is not None}


def _echo_tool(tool: Json) -> Json:
    match tool.get("type"):
        case "function":
            return _FUNCTION_DEFAULTS | tool
        case "mcp":
            return {key: value for key, value in tool.items() if key not in _SECRET_KEYS}
        case _:
            return tool
