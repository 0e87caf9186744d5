"""Moves tools into the prompt, for upstreams whose API has none. The model writes its calls as text.

Does not parse that text: `translation/parsers/tools` does.
"""

from collections.abc import Sequence
from typing import Any, Final

import orjson

from translation.chat.upstream.call_formats import CALL_FORMATS, CallFormat, PastCall, dump_prompt_json
from translation.errors import Unrepresentable
from translation.parsers.tools import block_stop_of
from translation.representation.json_types import Json
from translation.tools.declared_functions import functions_of

_MAX_STOPS: Final = 4
"""The number of stop sequences that OpenAI and most other upstreams accept."""


def lower_tools_to_text(body: Json, *, single_block: bool, parser: str = "hermes") -> Json:
    """Returns an equivalent chat body without `tools`, `tool_choice`, `parallel_tool_calls`, calls and tool messages.

    The tools are described at the end of the system message, which is added if there is none. Calls in the history
    become the text that `parser` reads calls from, and their outputs become user messages. With `single_block`, or if
    calls may not be parallel, a stop sequence ends the reply after the first block of calls. Raises Unrepresentable
    for tools that are not functions.
    """
    lowered = {key: value for key, value in body.items() if key not in _REPLACED_PARAMS}
    messages = _render_messages(body["messages"], CALL_FORMATS[parser])
    tools, choice = body.get("tools") or (), body.get("tool_choice")
    for index, tool in enumerate(tools):
        if tool["type"] != "function":
            raise Unrepresentable(f"this model has no tools of type {tool['type']!r}", param=f"tools[{index}]")
    if tools and choice != "none":
        one_call = body.get("parallel_tool_calls") is False
        messages = _add_to_system_message(
            messages, _render_tools_section(tools, choice, CALL_FORMATS[parser], one_call=one_call)
        )
        if (single_block or one_call) and (end := block_stop_of(parser)):
            lowered = _add_stop(lowered, end)
    return {**lowered, "messages": messages}


_REPLACED_PARAMS: Final = frozenset({"tools", "tool_choice", "parallel_tool_calls", "messages"})


def _render_tools_section(tools: Sequence[Json], choice: Any, form: CallFormat, *, one_call: bool) -> str:
    signatures = "\n".join(dump_prompt_json({"type": "function", "function": _signature(tool)}) for tool in tools)
    rules = ["Make one call at most in one answer." if one_call else form.several_calls_note]
    match choice:
        case "required":
            rules.append("You must call a function now.")
        case {"function": {"name": name}}:
            rules.append(f"You must call the function {dump_prompt_json(name)} now.")
    return (
        "# Tools\n\nYou may call one or more functions to help with the user query.\n\n"
        f"Function signatures are given within <tools></tools> XML tags:\n<tools>\n{signatures}\n</tools>\n\n"
        f"{form.instructions}\n{' '.join(rules)}"
    )


def _signature(tool: Json) -> Json:
    ((name, description, parameters),) = functions_of([tool])
    optional = {} if description is None else {"description": description}
    return {"name": name, **optional, "parameters": parameters}


def _add_to_system_message(messages: list[Json], section: str) -> list[Json]:
    first = messages[0]
    if first["role"] not in ("system", "developer"):
        return [{"role": "system", "content": section}, *messages]
    return [{**first, "content": f"{first['content']}\n\n{section}"}, *messages[1:]]


def _add_stop(body: Json, end: str) -> Json:
    stop = body.get("stop") or []
    stops = [stop] if isinstance(stop, str) else stop
    return {**body, "stop": [*stops, end]} if len(stops) < _MAX_STOPS else body


def _render_messages(messages: Sequence[Json], form: CallFormat) -> list[Json]:
    rendered: list[Json] = []
    outputs: list[Json] = []
    for message in messages:
        if message["role"] == "tool":
            outputs += _output_parts(message["content"])
            continue
        if outputs:
            rendered.append(_build_outputs_message(outputs))
            outputs = []
        calls = message.get("tool_calls")
        rendered.append(_render_calls(message, list(map(_parse_call, calls)), form) if calls else message)
    if outputs:
        rendered.append(_build_outputs_message(outputs))
    return rendered


def _render_calls(message: Json, calls: Sequence[PastCall], form: CallFormat) -> Json:
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "content": "\n".join(filter(None, (rest.get("content"), form.render(calls))))}


def _parse_call(call: Json) -> PastCall:
    if call["type"] == "custom":
        return PastCall(call["custom"]["name"], {"input": call["custom"]["input"]})
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    try:
        return PastCall(name, orjson.loads(arguments))
    except orjson.JSONDecodeError:
        return PastCall(name, arguments)


def _output_parts(content: str | Sequence[Json]) -> list[Json]:
    """Returns the output of one call as parts of a user message."""
    parts = [_text_part(content)] if isinstance(content, str) else content
    return [_text_part("<tool_response>\n"), *parts, _text_part("\n</tool_response>\n")]


def _text_part(text: str) -> Json:
    return {"type": "text", "text": text}


def _build_outputs_message(parts: Sequence[Json]) -> Json:
    """Returns the user message with the outputs of all calls of one assistant message."""
    if all(part["type"] == "text" for part in parts):
        return {"role": "user", "content": "".join(part["text"] for part in parts).rstrip("\n")}
    return {"role": "user", "content": list(parts)}
