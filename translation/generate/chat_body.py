"""A request to `/generate` → the same request in chat."""

import orjson

from translation.representation.json_types import Json

_PROFILE_PARAMS = frozenset({"two_pass", "think_tag", "tool_parser", "max_thinking_tokens", "max_response_tokens"})
"""What a model's profile is told, or a limit that depends on it."""


def build_chat_body(body: Json, *, model: str, two_pass: bool) -> Json:
    """A valid body in chat's words; keys that chat knows already stay. `two_pass`: whether thinking has a run of its
    own, so that a limit on the answer is none on both.

    A budget for thinking is not in it: chat has no 0, see `with_budget`.
    """
    chat = {name: value for name, value in body.items() if name not in _PROFILE_PARAMS and value is not None}
    chat["model"] = model
    chat["messages"] = [_build_message(message) for message in body["messages"]]
    if "tools" in chat:
        chat["tools"] = [{"type": "function", "function": tool} for tool in chat["tools"]]
    if isinstance(choice := chat.get("tool_choice"), dict):
        chat["tool_choice"] = {"type": "function", "function": {"name": choice["name"]}}
    limit = body.get("max_response_tokens")
    if limit is not None and not two_pass:
        chat["max_completion_tokens"] = min(limit, chat.get("max_completion_tokens") or limit)
    return chat


def set_thinking_budget(chat: Json, budget: int, *, two_pass: bool) -> Json:
    """A valid chat body with this many tokens for thinking; none at all forbids it where it has no run of its own."""
    if budget == 0 and not two_pass:
        return {**chat, "thinking": False}
    return {**chat, "reasoning": {**(chat.get("reasoning") or {}), "max_tokens": budget}}


def _build_message(message: Json) -> Json:
    calls = message.get("tool_calls")
    return {**message, "tool_calls": [_build_call(call) for call in calls]} if calls else message


def _build_call(call: Json) -> Json:
    if "function" in call:
        return call
    arguments = call["arguments"]
    said = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    return {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": said}}
