"""Builds the demo model's reply to a turn, without a clock or randomness: the same turn always gets the same reply."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import orjson

from providers.scripted.schema_instances import build_minimal_instance
from providers.scripted.schema_strings import UnsatisfiableSchema, ValueTooLarge
from translation.errors import Unrepresentable
from translation.representation.json_types import Item, Json
from translation.representation.turn import Turn

_MAX_QUOTED_CHARS: Final = 100_000
"""The most of a text that the model repeats. All of a large body in small pieces would take minutes of a processor."""

_MORE: Final = " [...]"
"""The end of a text that was cut."""


class ScriptedCall(NamedTuple):
    name: str
    arguments: str


class ScriptedReply(NamedTuple):
    """Reasoning, if the turn requests it; then a call or a text."""

    reasoning: str
    call: ScriptedCall | None
    text: str


def build_reply(turn: Turn) -> ScriptedReply:
    """Returns the reply to a turn. Raises Unrepresentable for a schema without a known value."""
    results = list(_tool_results(turn.items))
    call = _build_call(turn, has_results=bool(results))
    text = "" if call else _build_text(turn, results)
    return ScriptedReply(
        _build_reasoning(turn, call, results) if _wants_reasoning(turn) else "", call, cut_at_stop(text, turn)
    )


def read_input_text(turn: Turn) -> str:
    """Returns all text of a turn's input."""
    return " ".join([turn.instructions or "", *(_text_of_item(item) for item in turn.items)])


def _wants_reasoning(turn: Turn) -> bool:
    if turn.thinking is not None:
        return turn.thinking
    reasoning = turn.reasoning or {}
    return reasoning.get("effort") not in (None, "none") or bool(reasoning.get("max_tokens"))


def _build_reasoning(turn: Turn, call: ScriptedCall | None, results: Sequence[str]) -> str:
    if call:
        plan = f"I will call {call.name}."
    elif turn.text_format:
        plan = "I will fill in the format that was asked for."
    elif results:
        plan = "I will report what the tool returned."
    else:
        plan = "I will repeat it."
    text = _last_user_text(turn.items)
    words = len(text.removesuffix(_MORE).split())
    more = "more than " if text.endswith(_MORE) else ""
    return f"The user wrote {more}{words} {'word' if words == 1 else 'words'}. {plan}"


def _build_text(turn: Turn, results: Sequence[str]) -> str:
    if turn.text_format:
        return _build_formatted_text(turn.text_format)
    if results:
        return "\n".join(results)
    user_text = _last_user_text(turn.items)
    return f"You said: {user_text}" if user_text else "You said nothing."


def _build_formatted_text(text_format: Json) -> str:
    if text_format.get("type") != "json_schema":
        return "{}"
    try:
        return _instance_json(text_format.get("schema") or {})
    except UnsatisfiableSchema as failure:
        raise Unrepresentable(
            f"the demo model knows no value for this schema: {failure}", param="text.format.schema"
        ) from failure


def _instance_json(schema: Json) -> str:
    try:
        return orjson.dumps(build_minimal_instance(schema)).decode()
    except orjson.JSONEncodeError:
        raise UnsatisfiableSchema("its numbers are too large") from None


def cut_at_stop(text: str, turn: Turn) -> str:
    """Returns the text before the first stop sequence."""
    for stop in turn.sampling.get("stop") or ():
        if stop:
            text = text.split(stop, 1)[0]
    return text


def _build_call(turn: Turn, *, has_results: bool) -> ScriptedCall | None:
    """Returns a call of the first allowed tool whose arguments can be built; None if no call is wanted or possible.

    A call is wanted if `tool_choice` requires one, or if the last user message contains the name of the tool. After a
    tool that would need too large arguments no other is tried.
    """
    allowed, forced = _parse_tool_choice(turn.tool_choice)
    user_text = _last_user_text(turn.items)
    if has_results and not forced:
        return None
    failure: UnsatisfiableSchema | None = None
    for tool in turn.tools:
        if tool.get("type") != "function" or (allowed is not None and tool["name"] not in allowed):
            continue
        if not forced and not _contains_name(user_text, tool["name"]):
            continue
        try:
            arguments = _instance_json({"type": "object", **(tool.get("parameters") or {})})
        except UnsatisfiableSchema as error:
            failure = error
            if isinstance(error, ValueTooLarge):
                break
        else:
            return ScriptedCall(tool["name"], arguments)
    if forced:
        reason = failure or "none of the tools can be called"
        raise Unrepresentable(f"the demo model cannot make the call that tool_choice requires: {reason}", param="tools")
    return None


def _contains_name(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text, re.IGNORECASE) is not None


def _parse_tool_choice(choice: str | Json | None) -> tuple[Sequence[str] | None, bool]:
    """Returns the names of the tools that may be called (None: all), and whether a call is required."""
    match choice:
        case "none":
            return (), False
        case "required":
            return None, True
        case {"type": "function", "name": str(name)}:
            return (name,), True
        case {"type": "allowed_tools", "tools": [*tools], **rest}:
            return [tool.get("name", "") for tool in tools], rest.get("mode") == "required"
    return None, False


def _tool_results(items: Sequence[Item]) -> Iterator[str]:
    """Yields what the tools returned since the last user message."""
    names = {item.get("call_id"): item["name"] for item in items if item["type"] == "function_call"}
    for item in items[_last_user_message(items) + 1 :]:
        if item["type"].endswith("_output"):
            yield f"{names.get(item.get('call_id'), 'The tool')} returned: {_cut(_text_of_item(item))}"


def _last_user_text(items: Sequence[Item]) -> str:
    last = _last_user_message(items)
    return _cut(_text_of_item(items[last])) if last >= 0 else ""


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_QUOTED_CHARS else text[:_MAX_QUOTED_CHARS] + _MORE


def _last_user_message(items: Sequence[Item]) -> int:
    return max((index for index, item in enumerate(items) if item.get("role") == "user"), default=-1)


def _text_of_item(item: Item) -> str:
    content: Any = item.get("output") if item["type"].endswith("_output") else item.get("content")
    if isinstance(content, str):
        return content
    return " ".join(_text_of_part(part) for part in content or () if isinstance(part, dict))


def _text_of_part(part: Json) -> str:
    """Returns a part's text; for other parts their type in brackets."""
    for key in ("text", "refusal"):
        if isinstance(text := part.get(key), str):
            return text
    return f"[{str(part.get('type', 'part')).removeprefix('input_')}]"
