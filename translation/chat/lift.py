"""A Chat Completions request → `Turn`."""

from collections.abc import Iterator, Mapping
from typing import Any

from translation.chat.history import lift_messages
from translation.chat.schema import REQUEST_FIELDS
from translation.errors import Unrepresentable
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.turn import SHARED_PARAMS, Turn

_SAMPLING_PARAMS = SHARED_PARAMS | {"logprobs", "top_logprobs", "n"}

_LOSABLE_PARAMS = frozenset({"prediction", "audio", "max_tokens", "stream_options", "functions"})
"""Where a loss can be."""


def lift(body: Json, *, relayed: bool = False, model: str | None = None) -> Turn:
    """The turn a valid body (see `schema.validate`) asks for, of `model` if that is not the one the body names; what a
    turn cannot say is in `lost`.

    Raises InvalidRequest for a tool message without its call, and Unrepresentable for audio output, which would come
    back as something else; not when the body is `relayed` as it is and the turn only serves to check it.
    """
    given = {key: value for key, value in body.items() if value is not None}
    losses = [] if _LOSABLE_PARAMS.isdisjoint(given) else list(_losses(given))
    if not relayed and "audio" in given.get("modalities", ()):
        raise Unrepresentable("this model answers in text only: leave 'audio' out of modalities", param="modalities")
    items = lift_messages(body["messages"], losses, relayed=relayed)
    thinking, reasoning = _lift_reasoning(given, losses)
    return Turn(
        model=body["model"] if model is None else model,
        items=items,
        tools=_lift_tools(given),
        tool_choice=_lift_tool_choice(given),
        parallel_tool_calls=False if _uses_functions(given) else given.get("parallel_tool_calls"),
        sampling=_lift_sampling(given),
        max_output_tokens=given.get("max_completion_tokens", given.get("max_tokens")),
        text_format=_lift_text_format(given.get("response_format")),
        verbosity=given.get("verbosity"),
        reasoning=reasoning,
        thinking=thinking,
        stream=given.get("stream", False),
        extra={key: value for key, value in given.items() if key not in REQUEST_FIELDS},
        losses=tuple(dict.fromkeys(losses)),
    )


def _losses(given: Mapping[str, Any]) -> Iterator[Loss]:
    if "prediction" in given:
        yield Loss("prediction", "dropped")
    if "audio" in given:
        yield Loss("audio", "dropped")
    if len({given[key] for key in ("max_tokens", "max_completion_tokens") if key in given}) > 1:
        yield Loss("max_tokens", "dropped")
    if (given.get("stream_options") or {}).get("include_obfuscation"):
        yield Loss("stream_options.include_obfuscation", "dropped")
    if given.get("functions") and given.get("tools"):
        yield Loss("functions", "dropped")


def _uses_functions(given: Mapping[str, Any]) -> bool:
    """Whether the client speaks of `functions`, which call one at a time."""
    return bool(given.get("functions")) and not given.get("tools")


def _lift_sampling(given: Mapping[str, Any]) -> Json:
    sampling = {key: value for key, value in given.items() if key in _SAMPLING_PARAMS}
    stop = given.get("stop")
    if stop:
        sampling["stop"] = [stop] if isinstance(stop, str) else stop
    return sampling


def _lift_reasoning(given: Mapping[str, Any], lost: list[Loss]) -> tuple[bool | None, Json | None]:
    """(thinking, reasoning), from `reasoning_effort` and from OpenRouter's `reasoning` object."""
    if "reasoning" not in given and "reasoning_effort" not in given:
        return given.get("thinking"), None
    remaining = {key: value for key, value in given.get("reasoning", {}).items() if value is not None}
    thinking = given.get("thinking", remaining.pop("enabled", None))
    reasoning = {key: remaining.pop(key) for key in ("effort", "max_tokens", "summary") if key in remaining}
    if "reasoning_effort" in given:
        reasoning["effort"] = given["reasoning_effort"]
    lost += [Loss(f"reasoning.{key}", "dropped") for key in remaining]
    return thinking, reasoning or None


def _lift_tools(given: Mapping[str, Any]) -> list[Json]:
    if _uses_functions(given):
        return [_lift_function(function) for function in given["functions"]]
    tools = [_TOOL_LIFTERS[tool["type"]](tool) for tool in given.get("tools", ())]
    if "web_search_options" in given:
        tools.append(_lift_web_search(given["web_search_options"]))
    return tools


def _lift_function(function: Json) -> Json:
    return {"type": "function", **_without_nulls(function)}


def _lift_custom_tool(custom: Json) -> Json:
    tool = {"type": "custom", **_without_nulls(custom)}
    if tool.get("format", {}).get("type") == "grammar":
        tool["format"] = {"type": "grammar", **tool["format"]["grammar"]}
    return tool


_TOOL_LIFTERS = {
    "function": lambda tool: _lift_function(tool["function"]),
    "custom": lambda tool: _lift_custom_tool(tool["custom"]),
}


def _lift_web_search(options: Json) -> Json:
    tool = {"type": "web_search", **_without_nulls(options)}
    if "user_location" in tool:
        tool["user_location"] = {"type": "approximate", **tool["user_location"]["approximate"]}
    return tool


def _lift_tool_choice(given: Mapping[str, Any]) -> str | Json | None:
    choice = given.get("tool_choice")
    if _uses_functions(given):
        choice = given.get("function_call")
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
    return {"type": "json_schema", **_without_nulls(response_format["json_schema"])}


def _without_nulls(keys: Json) -> Json:
    return {key: value for key, value in keys.items() if value is not None}
