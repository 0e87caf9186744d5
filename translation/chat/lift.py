"""A Chat Completions request → `Turn`."""

from collections.abc import Iterator, Mapping
from typing import Any

from translation.chat.history import lift_messages
from translation.chat.schema import FIELDS
from translation.errors import Unrepresentable
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.turn import SHARED, Turn

_SAMPLING = SHARED | {"logprobs", "top_logprobs", "n"}

_LOSABLE = frozenset({"prediction", "audio", "max_tokens", "stream_options", "functions"})
"""Where a loss can be."""


def lift(body: Json, *, relayed: bool = False, model: str | None = None) -> Turn:
    """The turn a valid body (see `schema.validate`) asks for, of `model` if that is not the one the body names; what a
    turn cannot say is in `lost`.

    Raises InvalidRequest for a tool message without its call, and Unrepresentable for audio output, which would come
    back as something else; not when the body is `relayed` as it is and the turn only serves to check it.
    """
    given = {key: value for key, value in body.items() if value is not None}
    lost = [] if _LOSABLE.isdisjoint(given) else list(_losses(given))
    if not relayed and "audio" in given.get("modalities", ()):
        raise Unrepresentable("this model answers in text only: leave 'audio' out of modalities", param="modalities")
    items = lift_messages(body["messages"], lost, relayed=relayed)
    thinking, reasoning = _reasoning(given, lost)
    return Turn(
        model=body["model"] if model is None else model,
        items=items,
        tools=_tools(given),
        tool_choice=_tool_choice(given),
        parallel_tool_calls=False if _legacy(given) else given.get("parallel_tool_calls"),
        sampling=_sampling(given),
        max_output_tokens=given.get("max_completion_tokens", given.get("max_tokens")),
        text_format=_text_format(given.get("response_format")),
        verbosity=given.get("verbosity"),
        reasoning=reasoning,
        thinking=thinking,
        stream=given.get("stream", False),
        extra={key: value for key, value in given.items() if key not in FIELDS},
        lost=tuple(dict.fromkeys(lost)),
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


def _legacy(given: Mapping[str, Any]) -> bool:
    """Whether the client speaks of `functions`, which call one at a time."""
    return bool(given.get("functions")) and not given.get("tools")


def _sampling(given: Mapping[str, Any]) -> Json:
    sampling = {key: value for key, value in given.items() if key in _SAMPLING}
    stop = given.get("stop")
    if stop:
        sampling["stop"] = [stop] if isinstance(stop, str) else stop
    return sampling


def _reasoning(given: Mapping[str, Any], lost: list[Loss]) -> tuple[bool | None, Json | None]:
    """(thinking, reasoning), from `reasoning_effort` and from OpenRouter's `reasoning` object."""
    if "reasoning" not in given and "reasoning_effort" not in given:
        return given.get("thinking"), None
    asked = {key: value for key, value in given.get("reasoning", {}).items() if value is not None}
    thinking = given.get("thinking", asked.pop("enabled", None))
    reasoning = {key: asked.pop(key) for key in ("effort", "max_tokens", "summary") if key in asked}
    if "reasoning_effort" in given:
        reasoning["effort"] = given["reasoning_effort"]
    lost += [Loss(f"reasoning.{key}", "dropped") for key in asked]
    return thinking, reasoning or None


def _tools(given: Mapping[str, Any]) -> list[Json]:
    if _legacy(given):
        return [_function(function) for function in given["functions"]]
    tools = [_TOOLS[tool["type"]](tool) for tool in given.get("tools", ())]
    if "web_search_options" in given:
        tools.append(_web_search(given["web_search_options"]))
    return tools


def _function(function: Json) -> Json:
    return {"type": "function", **_present(function)}


def _custom(custom: Json) -> Json:
    tool = {"type": "custom", **_present(custom)}
    if tool.get("format", {}).get("type") == "grammar":
        tool["format"] = {"type": "grammar", **tool["format"]["grammar"]}
    return tool


_TOOLS = {
    "function": lambda tool: _function(tool["function"]),
    "custom": lambda tool: _custom(tool["custom"]),
}


def _web_search(options: Json) -> Json:
    tool = {"type": "web_search", **_present(options)}
    if "user_location" in tool:
        tool["user_location"] = {"type": "approximate", **tool["user_location"]["approximate"]}
    return tool


def _tool_choice(given: Mapping[str, Any]) -> str | Json | None:
    choice = given.get("tool_choice")
    if _legacy(given):
        choice = given.get("function_call")
        return {"type": "function", "name": choice["name"]} if isinstance(choice, dict) else choice
    if not isinstance(choice, dict):
        return choice
    if choice["type"] == "allowed_tools":
        allowed = choice["allowed_tools"]
        return {"type": "allowed_tools", "mode": allowed["mode"], "tools": [_named(tool) for tool in allowed["tools"]]}
    return _named(choice)


def _named(choice: Json) -> Json:
    kind = choice["type"]
    return {"type": kind, "name": choice[kind]["name"]}


def _text_format(response_format: Json | None) -> Json | None:
    if response_format is None or response_format["type"] == "text":
        return None
    if response_format["type"] == "json_object":
        return {"type": "json_object"}
    return {"type": "json_schema", **_present(response_format["json_schema"])}


def _present(keys: Json) -> Json:
    return {key: value for key, value in keys.items() if value is not None}
