"""Tools said in words, for upstreams whose API has none: the prompt describes them, the answer's text calls them."""

from collections.abc import Sequence
from typing import Any, Final

import orjson

from translation.chat.lowering.call_formats import FORMATS, Call, Format, dump
from translation.errors import Unrepresentable
from translation.parsers.tools import stop
from translation.representation.json_types import Json
from translation.tools.declared_functions import declared

_MOST_STOPS: Final = 4
"""What OpenAI takes, and so do most others."""


def as_text(body: Json, *, single_block: bool, parser: str = "hermes") -> Json:
    """A chat body that says the same without `tools`, `tool_choice`, `parallel_tool_calls`, calls and tool messages.

    The tools go at the end of the system message, which is made if there is none; calls in the history become what
    `parser` would read them from, and their outputs messages of the user. `single_block`: the answer ends with the
    first block of calls, and so it does where calls may not be parallel. Raises Unrepresentable for tools that are no
    functions.
    """
    kept = {key: value for key, value in body.items() if key not in _OF_TOOLS}
    messages = _said(body["messages"], FORMATS[parser])
    tools, choice = body.get("tools") or (), body.get("tool_choice")
    for at, tool in enumerate(tools):
        if tool["type"] != "function":
            raise Unrepresentable(f"this model has no tools of type {tool['type']!r}", param=f"tools[{at}]")
    if tools and choice != "none":
        one_call = body.get("parallel_tool_calls") is False
        messages = _instructed(messages, _section(tools, choice, FORMATS[parser], one_call=one_call))
        if (single_block or one_call) and (end := stop(parser)):
            kept = _stopping(kept, end)
    return {**kept, "messages": messages}


_OF_TOOLS: Final = frozenset({"tools", "tool_choice", "parallel_tool_calls", "messages"})


def _section(tools: Sequence[Json], choice: Any, form: Format, *, one_call: bool) -> str:
    signatures = "\n".join(dump({"type": "function", "function": _signature(tool)}) for tool in tools)
    rules = ["Make one call at most in one answer." if one_call else form.several]
    match choice:
        case "required":
            rules.append("You must call a function now.")
        case {"function": {"name": name}}:
            rules.append(f"You must call the function {dump(name)} now.")
    return (
        "# Tools\n\nYou may call one or more functions to help with the user query.\n\n"
        f"Function signatures are given within <tools></tools> XML tags:\n<tools>\n{signatures}\n</tools>\n\n"
        f"{form.told}\n{' '.join(rules)}"
    )


def _signature(tool: Json) -> Json:
    ((name, description, parameters),) = declared([tool])
    described = {} if description is None else {"description": description}
    return {"name": name, **described, "parameters": parameters}


def _instructed(messages: list[Json], section: str) -> list[Json]:
    first = messages[0]
    if first["role"] not in ("system", "developer"):
        return [{"role": "system", "content": section}, *messages]
    return [{**first, "content": f"{first['content']}\n\n{section}"}, *messages[1:]]


def _stopping(body: Json, end: str) -> Json:
    given = body.get("stop") or []
    stops = [given] if isinstance(given, str) else given
    return {**body, "stop": [*stops, end]} if len(stops) < _MOST_STOPS else body


def _said(messages: Sequence[Json], form: Format) -> list[Json]:
    said: list[Json] = []
    outputs: list[Json] = []
    for message in messages:
        if message["role"] == "tool":
            outputs += _response(message["content"])
            continue
        if outputs:
            said.append(_answered(outputs))
            outputs = []
        calls = message.get("tool_calls")
        said.append(_with_calls(message, list(map(_call, calls)), form) if calls else message)
    if outputs:
        said.append(_answered(outputs))
    return said


def _with_calls(message: Json, calls: Sequence[Call], form: Format) -> Json:
    said = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**said, "content": "\n".join(filter(None, (said.get("content"), form.written(calls))))}


def _call(call: Json) -> Call:
    if call["type"] == "custom":
        return Call(call["custom"]["name"], {"input": call["custom"]["input"]})
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    try:
        return Call(name, orjson.loads(arguments))
    except orjson.JSONDecodeError:
        return Call(name, arguments)


def _response(content: str | Sequence[Json]) -> list[Json]:
    """One output as parts of a message."""
    parts = [_text(content)] if isinstance(content, str) else content
    return [_text("<tool_response>\n"), *parts, _text("\n</tool_response>\n")]


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _answered(parts: Sequence[Json]) -> Json:
    """The message that has the outputs of all calls of a turn."""
    if all(part["type"] == "text" for part in parts):
        return {"role": "user", "content": "".join(part["text"] for part in parts).rstrip("\n")}
    return {"role": "user", "content": list(parts)}
