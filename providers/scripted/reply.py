"""What the demo model says to a turn. No clock, no chance: the same turn always gets the same reply."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from providers.scripted.schema_instances import minimal_instance
from providers.scripted.schema_strings import Unfillable
from translation.errors import Unrepresentable
from translation.representation.json_types import Item, Json
from translation.representation.turn import Turn


class Call(NamedTuple):
    name: str
    arguments: str


class Reply(NamedTuple):
    """Reasoning, if it was asked for; then a call or a text."""

    reasoning: str
    call: Call | None
    text: str


def reply_to(turn: Turn) -> Reply:
    """Raises Unrepresentable for a schema nothing is known to fit."""
    results = list(_results(turn.items))
    call = _call(turn, answered=bool(results))
    text = "" if call else _text(turn, results)
    return Reply(_reasoning(turn, call, results) if _is_asked_to_reason(turn) else "", call, _cut(text, turn))


def words_of(turn: Turn) -> str:
    """All the text the model is given."""
    return " ".join([turn.instructions or "", *(_content(item) for item in turn.items)])


def _is_asked_to_reason(turn: Turn) -> bool:
    if turn.thinking is not None:
        return turn.thinking
    asked = turn.reasoning or {}
    return asked.get("effort") not in (None, "none") or bool(asked.get("max_tokens"))


def _reasoning(turn: Turn, call: Call | None, results: Sequence[str]) -> str:
    if call:
        plan = f"I will call {call.name}."
    elif turn.text_format:
        plan = "I will fill in the format that was asked for."
    elif results:
        plan = "I will report what the tool returned."
    else:
        plan = "I will repeat it."
    words = len(_last_user_text(turn.items).split())
    return f"The user wrote {words} {'word' if words == 1 else 'words'}. {plan}"


def _text(turn: Turn, results: Sequence[str]) -> str:
    if turn.text_format:
        return _filled_format(turn.text_format)
    if results:
        return "\n".join(results)
    said = _last_user_text(turn.items)
    return f"You said: {said}" if said else "You said nothing."


def _filled_format(text_format: Json) -> str:
    if text_format.get("type") != "json_schema":
        return "{}"
    try:
        return _instance(text_format.get("schema") or {})
    except Unfillable as failure:
        raise Unrepresentable(
            f"the demo model knows no value for this schema: {failure}", param="text.format.schema"
        ) from failure


def _instance(schema: Json) -> str:
    try:
        return orjson.dumps(minimal_instance(schema)).decode()
    except orjson.JSONEncodeError:
        raise Unfillable("its numbers are too large") from None


def _cut(text: str, turn: Turn) -> str:
    """The text up to the first stop sequence."""
    for stop in turn.sampling.get("stop") or ():
        if stop:
            text = text.split(stop, 1)[0]
    return text


def _call(turn: Turn, *, answered: bool) -> Call | None:
    """A call to the first tool that may be called and whose arguments can be filled in."""
    allowed, forced = _choice(turn.tool_choice)
    if answered and not forced:
        return None
    failure: Unfillable | None = None
    for tool in turn.tools:
        if tool.get("type") != "function" or (allowed is not None and tool["name"] not in allowed):
            continue
        try:
            arguments = _instance({"type": "object", **(tool.get("parameters") or {})})
        except Unfillable as error:
            failure = error
        else:
            return Call(tool["name"], arguments)
    if forced:
        why = failure or "none of the tools can be called"
        raise Unrepresentable(f"the demo model cannot make the call that tool_choice asks for: {why}", param="tools")
    return None


def _choice(choice: str | Json | None) -> tuple[Sequence[str] | None, bool]:
    """The names that may be called (None: all), and whether one has to be."""
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


def _results(items: Sequence[Item]) -> Iterator[str]:
    """What the tools returned since the user last spoke."""
    names = {item.get("call_id"): item["name"] for item in items if item["type"] == "function_call"}
    for item in items[_last_user_message(items) + 1 :]:
        if item["type"].endswith("_output"):
            yield f"{names.get(item.get('call_id'), 'The tool')} returned: {_content(item)}"


def _last_user_text(items: Sequence[Item]) -> str:
    last = _last_user_message(items)
    return _content(items[last]) if last >= 0 else ""


def _last_user_message(items: Sequence[Item]) -> int:
    return max((index for index, item in enumerate(items) if item.get("role") == "user"), default=-1)


def _content(item: Item) -> str:
    content: Any = item.get("output") if item["type"].endswith("_output") else item.get("content")
    if isinstance(content, str):
        return content
    return " ".join(_part(part) for part in content or () if isinstance(part, dict))


def _part(part: Json) -> str:
    """A part's text, or for media its kind in brackets."""
    for key in ("text", "refusal"):
        if isinstance(text := part.get(key), str):
            return text
    return f"[{str(part.get('type', 'part')).removeprefix('input_')}]"
