"""Renders calls as text: per text parser, the prompt that tells a model how to write tool calls, and the form of past
calls."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from translation.parsers.tools import mistral
from translation.parsers.tools.block_formats import HERMES_CLOSING, HERMES_OPENING, LLAMA_CLOSING, LLAMA_OPENING
from translation.representation.json_types import Json


class PastCall(NamedTuple):
    """A call in the history. `arguments` is the parsed JSON, or the text that a model wrote instead."""

    name: str
    arguments: Any


class CallFormat(NamedTuple):
    """The form in which one parser expects tool calls in the model's text."""

    instructions: str
    """The prompt's text on how to make a call."""
    several_calls_note: str
    """The prompt's text on how to make more than one call."""
    render: Callable[[Sequence[PastCall]], str]
    """Renders past calls as a model writes them."""


def dump_prompt_json(value: Any) -> str:
    """Returns `value` as compact JSON for a prompt."""
    return orjson.dumps(value).decode()


def _call_objects(calls: Sequence[PastCall], key: str) -> list[Json]:
    return [{"name": call.name, key: call.arguments} for call in calls]


def _render_json(calls: Sequence[PastCall]) -> str:
    objects = _call_objects(calls, "arguments")
    return dump_prompt_json(objects[0] if len(objects) == 1 else objects)


def _render_hermes(calls: Sequence[PastCall]) -> str:
    return f"{HERMES_OPENING}\n{_render_json(calls)}\n{HERMES_CLOSING}"


def _render_llama(calls: Sequence[PastCall]) -> str:
    return "\n".join(f"{LLAMA_OPENING}{call.name}>{dump_prompt_json(call.arguments)}{LLAMA_CLOSING}" for call in calls)


def _render_llama3_json(calls: Sequence[PastCall]) -> str:
    return "; ".join(map(dump_prompt_json, _call_objects(calls, "parameters")))


def _render_mistral(calls: Sequence[PastCall]) -> str:
    return f"{mistral.MARKER} {dump_prompt_json(_call_objects(calls, 'arguments'))}"


def _render_pythonic(calls: Sequence[PastCall]) -> str:
    return f"[{', '.join(f'{call.name}({_render_keywords(call.arguments)})' for call in calls)}]"


def _render_keywords(arguments: Any) -> str:
    keywords = arguments if isinstance(arguments, dict) else {"arguments": arguments}
    return ", ".join(f"{name}={value!r}" for name, value in keywords.items())


CALL_FORMATS: Final[Mapping[str, CallFormat]] = {
    "hermes": CallFormat(
        "For each function call, return a json object with function name and arguments within "
        f"{HERMES_OPENING}{HERMES_CLOSING} XML tags:\n"
        f'{HERMES_OPENING}\n{{"name": <function-name>, "arguments": <args-json-object>}}\n{HERMES_CLOSING}',
        "Write all calls of one answer in one block; several calls are a JSON array of such objects.",
        _render_hermes,
    ),
    "llama": CallFormat(
        f"For each function call, write:\n{LLAMA_OPENING}<function-name>><args-json-object>{LLAMA_CLOSING}",
        "Several calls follow each other.",
        _render_llama,
    ),
    "llama3_json": CallFormat(
        "To call a function, answer with a json object and nothing else:\n"
        '{"name": <function-name>, "parameters": <args-json-object>}',
        "Several calls are separated by semicolons.",
        _render_llama3_json,
    ),
    "mistral": CallFormat(
        f'To call a function, write:\n{mistral.MARKER} [{{"name": <function-name>, "arguments": <args-json-object>}}]',
        "Several calls are objects of the same list.",
        _render_mistral,
    ),
    "json": CallFormat(
        "To call a function, answer with a json object and nothing else:\n"
        '{"name": <function-name>, "arguments": <args-json-object>}',
        "Several calls are a JSON array of such objects.",
        _render_json,
    ),
    "pythonic": CallFormat(
        "To call a function, answer with a Python list of calls and nothing else:\n"
        "[<function-name>(<argument>=<value>, ...)]",
        "Several calls are entries of the same list.",
        _render_pythonic,
    ),
}
"""Name of a parser -> the format it reads."""
