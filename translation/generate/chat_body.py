"""Builds the chat request for a request to `/generate`."""

import orjson

from translation.representation.json_types import Json

_PROFILE_PARAMS = frozenset({"two_pass", "think_tag", "tool_parser", "max_thinking_tokens", "max_response_tokens"})
"""Parameters that override the profile of the model, and limits that depend on it."""


def build_chat_body(body: Json, *, model: str, two_pass: bool) -> Json:
    """Returns the chat body for a validated `/generate` body. Keys that chat knows are copied.

    `two_pass`: thinking is a run of its own, so `max_response_tokens` limits the answer only and is not sent as
    `max_completion_tokens`. The budget for thinking is not included, because chat has no budget of 0; see
    `set_thinking_budget`.
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
    """Returns a chat body with a budget for thinking in tokens. Without `two_pass` a budget of 0 forbids thinking."""
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
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    return {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": text}}
