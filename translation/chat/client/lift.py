"""Lifts a Chat Completions request to a `Turn`. Expects a body that `schema.validate` accepted."""

from collections.abc import Iterator, Mapping, Set
from typing import Any

from translation.chat.client.chat_history import lift_messages
from translation.chat.client.schema import (
    REQUEST_FIELDS,
    ApproximatePlace,
    Custom,
    Function,
    Grammar,
    JsonSchema,
    WebSearchOptions,
    find_unknown_in_request,
)
from translation.chat.client.thinking_params import THINKING_PARAMS, lift_thinking
from translation.errors import Unrepresentable
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.turn import SHARED_PARAMS, Turn

_SAMPLING_PARAMS = SHARED_PARAMS | {"logprobs", "top_logprobs", "n"}

_LOSSY_PARAMS = frozenset({"prediction", "audio", "max_tokens", "functions"})
"""Parameters that `_losses` examines."""

_FUNCTION_KEYS = frozenset(Function.__annotations__)
_CUSTOM_KEYS = frozenset(Custom.__annotations__)
_SCHEMA_KEYS = frozenset(JsonSchema.__annotations__)
_GRAMMAR_KEYS = frozenset(Grammar.__annotations__)
_SEARCH_KEYS = frozenset(WebSearchOptions.__annotations__)
_PLACE_KEYS = frozenset(ApproximatePlace.__annotations__)


def lift(body: Json, *, relayed: bool = False, model: str | None = None) -> Turn:
    """Returns the turn for a valid body (see `schema.validate`). What a turn cannot represent is in its `losses`.

    `model` replaces the model that the body names. Raises InvalidRequest for a tool message without its call, and
    Unrepresentable for audio output, because the reply would be text. `relayed` says that the body itself is forwarded
    and the turn only serves to check it: then audio is allowed.
    """
    params = {key: value for key, value in body.items() if value is not None}
    losses = [] if _LOSSY_PARAMS.isdisjoint(params) else list(_losses(params))
    if not relayed and "audio" in params.get("modalities", ()):
        raise Unrepresentable("this model answers in text only: leave 'audio' out of modalities", param="modalities")
    items = lift_messages(body["messages"], losses, relayed=relayed)
    if not relayed:
        losses += [Loss(path, "dropped") for path in find_unknown_in_request(params)]
    thinking, reasoning = (None, None) if THINKING_PARAMS.isdisjoint(params) else lift_thinking(params, losses)
    return Turn(
        model=body["model"] if model is None else model,
        items=items,
        tools=_lift_tools(params),
        tool_choice=_lift_tool_choice(params),
        parallel_tool_calls=False if _uses_functions(params) else params.get("parallel_tool_calls"),
        sampling=_lift_sampling(params),
        max_output_tokens=params.get("max_completion_tokens", params.get("max_tokens")),
        text_format=_lift_text_format(params.get("response_format")),
        verbosity=params.get("verbosity"),
        reasoning=reasoning,
        thinking=thinking,
        stream=params.get("stream", False),
        extra={key: value for key, value in params.items() if key not in REQUEST_FIELDS},
        losses=tuple(dict.fromkeys(losses)),
    )


def _losses(params: Mapping[str, Any]) -> Iterator[Loss]:
    if "prediction" in params:
        yield Loss("prediction", "dropped")
    if "audio" in params:
        yield Loss("audio", "dropped")
    if len({params[key] for key in ("max_tokens", "max_completion_tokens") if key in params}) > 1:
        yield Loss("max_tokens", "dropped")
    if params.get("functions") and params.get("tools"):
        yield Loss("functions", "dropped")


def _uses_functions(params: Mapping[str, Any]) -> bool:
    """Whether the client sent `functions`, the legacy form, which allows one call per reply."""
    return bool(params.get("functions")) and not params.get("tools")


def _lift_sampling(params: Mapping[str, Any]) -> Json:
    sampling = {key: value for key, value in params.items() if key in _SAMPLING_PARAMS}
    stop = params.get("stop")
    if stop:
        sampling["stop"] = [stop] if isinstance(stop, str) else stop
    return sampling


def _lift_tools(params: Mapping[str, Any]) -> list[Json]:
    if _uses_functions(params):
        return [_lift_function(function) for function in params["functions"]]
    lifters = _TOOL_LIFTERS
    tools = [lifters[kind](tool) if (kind := tool["type"]) in lifters else tool for tool in params.get("tools", ())]
    if "web_search_options" in params:
        tools.append(_lift_web_search(params["web_search_options"]))
    return tools


def _lift_function(function: Json) -> Json:
    """Without `strict` a function of the Chat API is not strict, and one of the Responses API is.

    Source: developers.openai.com/api/docs/guides/function-calling, "Strict mode".
    """
    return {"strict": False, **_build_typed("function", _pick_keys(function, _FUNCTION_KEYS))}


def _lift_custom_tool(custom: Json) -> Json:
    tool = _build_typed("custom", _pick_keys(custom, _CUSTOM_KEYS))
    if tool.get("format", {}).get("type") == "grammar":
        tool["format"] = _build_typed("grammar", _pick_keys(tool["format"]["grammar"], _GRAMMAR_KEYS))
    return tool


_TOOL_LIFTERS = {
    "function": lambda tool: _lift_function(tool["function"]),
    "custom": lambda tool: _lift_custom_tool(tool["custom"]),
}


def _lift_web_search(options: Json) -> Json:
    tool = _build_typed("web_search", _pick_keys(options, _SEARCH_KEYS))
    if "user_location" in tool:
        approximate = tool["user_location"]["approximate"]
        tool["user_location"] = _build_typed("approximate", _pick_keys(approximate, _PLACE_KEYS))
    return tool


def _lift_tool_choice(params: Mapping[str, Any]) -> str | Json | None:
    choice = params.get("tool_choice")
    if _uses_functions(params):
        choice = params.get("function_call")
        return {"type": "function", "name": choice["name"]} if isinstance(choice, dict) else choice
    if not isinstance(choice, dict):
        return choice
    if choice["type"] == "allowed_tools":
        allowed = choice["allowed_tools"]
        return {
            "type": "allowed_tools",
            "mode": allowed["mode"],
            "tools": [_lift_named_choice(tool) for tool in allowed["tools"]],
        }
    return _lift_named_choice(choice)


def _lift_named_choice(choice: Json) -> Json:
    kind = choice["type"]
    return {"type": kind, "name": choice[kind]["name"]}


def _lift_text_format(response_format: Json | None) -> Json | None:
    if response_format is None or response_format["type"] == "text":
        return None
    if response_format["type"] == "json_object":
        return {"type": "json_object"}
    return _build_typed(
        "json_schema", {key: value for key, value in response_format["json_schema"].items() if key in _SCHEMA_KEYS}
    )


def _build_typed(kind: str, values: Json) -> Json:
    """Returns an object of the Responses API with the values that are not null. A `type` among them cannot
    make a function a tool of another kind, such as `mcp`."""
    return {"type": kind, **{key: value for key, value in values.items() if value is not None and key != "type"}}


def _pick_keys(values: Json, keys: Set[str]) -> Json:
    return {key: value for key, value in values.items() if key in keys}
