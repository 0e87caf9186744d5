"""How a model is told to write its calls, and how calls it made are shown to it, per parser that reads them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from translation.parsers.tools import hermes, llama, mistral
from translation.representation.json_types import Json


class PastCall(NamedTuple):
    """A call in the history. `arguments` are an object, or the text a model wrote instead of one."""

    name: str
    arguments: Any


class CallFormat(NamedTuple):
    """`told`: how to call. `several`: how to make more than one call. `written`: calls as a model writes them."""

    instructions: str
    several_calls_note: str
    render: Callable[[Sequence[PastCall]], str]


def dump_json(value: Any) -> str:
    """JSON as a prompt has it."""
    return orjson.dumps(value).decode()


def _call_objects(calls: Sequence[PastCall], key: str) -> list[Json]:
    return [{"name": call.name, key: call.arguments} for call in calls]


def _render_json(calls: Sequence[PastCall]) -> str:
    objects = _call_objects(calls, "arguments")
    return dump_json(objects[0] if len(objects) == 1 else objects)


def _render_hermes(calls: Sequence[PastCall]) -> str:
    return f"{hermes.OPENING_TAG}\n{_render_json(calls)}\n{hermes.CLOSING_TAG}"


def _render_llama(calls: Sequence[PastCall]) -> str:
    return "\n".join(f"{llama.OPENING_TAG}{call.name}>{dump_json(call.arguments)}{llama.CLOSING_TAG}" for call in calls)


def _render_llama3_json(calls: Sequence[PastCall]) -> str:
    return "; ".join(map(dump_json, _call_objects(calls, "parameters")))


def _render_mistral(calls: Sequence[PastCall]) -> str:
    return f"{mistral.MARKER} {dump_json(_call_objects(calls, 'arguments'))}"


def _render_pythonic(calls: Sequence[PastCall]) -> str:
    return f"[{', '.join(f'{call.name}({_render_keywords(call.arguments)})' for call in calls)}]"


def _render_keywords(arguments: Any) -> str:
    given = arguments if isinstance(arguments, dict) else {"arguments": arguments}
    return ", ".join(f"{name}={value!r}" for name, value in given.items())


CALL_FORMATS: Final[Mapping[str, CallFormat]] = {
    "hermes": CallFormat(
        "For each function call, return a json object with function name and arguments within "
        f"{hermes.OPENING_TAG}{hermes.CLOSING_TAG} XML tags:\n"
        f'{hermes.OPENING_TAG}\n{{"name": <function-name>, "arguments": <args-json-object>}}\n{hermes.CLOSING_TAG}',
        "Write all calls of one answer in one block; several calls are a JSON array of such objects.",
        _render_hermes,
    ),
    "llama": CallFormat(
        f"For each function call, write:\n{llama.OPENING_TAG}<function-name>><args-json-object>{llama.CLOSING_TAG}",
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
"""Parser -> the format it reads."""
