"""A chat upstream that refuses what the strictest real ones refuse, so that a wrong translation cannot go unseen."""

import re
from typing import Any

from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from tests.upstream import Exchange, Request, Script, error_reply

Json = dict[str, Any]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_REASONING = "reasoning_content"
"""The only field outside the official API: thoughts are sent back to the model in it."""


@with_config(ConfigDict(extra="forbid"))
class _Body(CompletionCreateParamsNonStreaming):
    """The official request, without any key of its own anywhere."""


_BODY = TypeAdapter(_Body)


def strict(script: Script) -> Script:
    """Wraps a script with a check of the request. A request that fails the check gets a 400 with the reason."""

    async def play(exchange: Exchange) -> None:
        complaint = find_mistake(exchange.request)
        await (error_reply(400, complaint) if complaint else script)(exchange)

    return play


def find_mistake(request: Request) -> str | None:
    """Returns what a strict upstream would refuse about a chat request, or None."""
    body = {name: value for name, value in request.json.items() if name != "stream"}
    try:
        _read_all(_BODY.validate_python({**body, "messages": [_without_reasoning(m) for m in body["messages"]]}))
    except ValidationError as refusal:
        return "; ".join(f"{error['loc']}: {error['msg']}" for error in refusal.errors())[:2000]
    text_format = (body.get("response_format") or {}).get("json_schema") or {}
    if text_format.get("strict") and not _is_closed(text_format["schema"]):
        return "strict is true, and the schema of response_format is not"
    if "stream_options" in body and not request.streams:
        return "stream_options without stream"
    if not body.get("tools"):
        unwanted = {"tools", "tool_choice", "parallel_tool_calls"} & set(body)
        return f"{sorted(unwanted)} without tools" if unwanted else _find_stray_call(body["messages"])
    return _find_bad_tool(body["tools"]) or _find_stray_call(body["messages"])


def _find_bad_tool(tools: list[Json]) -> str | None:
    for tool in tools:
        function = tool["function"]
        if not _NAME.fullmatch(function["name"]):
            return f"the tool name {function['name']!r}"
        if function.get("strict") and not _is_closed(function.get("parameters") or {}):
            return f"strict is true, and the schema of {function['name']} is not"
        if "parameters" in function and "properties" not in function["parameters"]:
            return f"the schema of {function['name']} is of an object without properties"
    return None


def _is_closed(schema: Json) -> bool:
    """Whether an object has no other properties than its own, and requires all of them."""
    required = schema.get("required", [])
    return schema.get("additionalProperties") is False and set(required) == set(schema.get("properties", {}))


def _find_stray_call(messages: list[Json]) -> str | None:
    """Returns the fault if a call has no tool message right after its message, or a tool message has no call."""
    waiting: set[str] = set()
    for place, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return f"messages[{place}] answers no call of the message before"
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return f"no tool message for the calls {sorted(waiting)} before messages[{place}]"
        waiting = {call["id"] for call in message.get("tool_calls") or ()}
    return f"no tool message for the calls {sorted(waiting)}" if waiting else None


def _without_reasoning(message: Json) -> Json:
    return {name: value for name, value in message.items() if name != _REASONING or message["role"] != "assistant"}


def _read_all(value: Any) -> None:
    """Reads all Iterables, because pydantic validates them only when they are read."""
    if isinstance(value, str | bytes | int | float | None):
        return
    for part in value.values() if isinstance(value, dict) else value:
        _read_all(part)
