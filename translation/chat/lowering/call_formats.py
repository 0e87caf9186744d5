"""How a model is told to write its calls, and how calls it made are shown to it, per parser that reads them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from translation.parsers.tools import hermes, llama, mistral
from translation.representation.json_types import Json


class Call(NamedTuple):
    """A call in the history. `arguments` are an object, or the text a model wrote instead of one."""

    name: str
    arguments: Any


class Format(NamedTuple):
    """`told`: how to call. `several`: how to make more than one call. `written`: calls as a model writes them."""

    told: str
    several: str
    written: Callable[[Sequence[Call]], str]


def dump(value: Any) -> str:
    """JSON as a prompt has it."""
    return orjson.dumps(value).decode()


def _objects(calls: Sequence[Call], key: str) -> list[Json]:
    return [{"name": call.name, key: call.arguments} for call in calls]


def _one_or_list(calls: Sequence[Call]) -> str:
    objects = _objects(calls, "arguments")
    return dump(objects[0] if len(objects) == 1 else objects)


def _hermes(calls: Sequence[Call]) -> str:
    return f"{hermes.OPENING}\n{_one_or_list(calls)}\n{hermes.CLOSING}"


def _llama(calls: Sequence[Call]) -> str:
    return "\n".join(f"{llama.OPENING}{call.name}>{dump(call.arguments)}{llama.CLOSING}" for call in calls)


def _llama3_json(calls: Sequence[Call]) -> str:
    return "; ".join(map(dump, _objects(calls, "parameters")))


def _mistral(calls: Sequence[Call]) -> str:
    return f"{mistral.MARKER} {dump(_objects(calls, 'arguments'))}"


def _pythonic(calls: Sequence[Call]) -> str:
    return f"[{', '.join(f'{call.name}({_keywords(call.arguments)})' for call in calls)}]"


def _keywords(arguments: Any) -> str:
    given = arguments if isinstance(arguments, dict) else {"arguments": arguments}
    return ", ".join(f"{name}={value!r}" for name, value in given.items())


FORMATS: Final[Mapping[str, Format]] = {
    "hermes": Format(
        "For each function call, return a json object with function name and arguments within "
        f"{hermes.OPENING}{hermes.CLOSING} XML tags:\n"
        f'{hermes.OPENING}\n{{"name": <function-name>, "arguments": <args-json-object>}}\n{hermes.CLOSING}',
        "Write all calls of one answer in one block; several calls are a JSON array of such objects.",
        _hermes,
    ),
    "llama": Format(
        f"For each function call, write:\n{llama.OPENING}<function-name>><args-json-object>{llama.CLOSING}",
        "Several calls follow each other.",
        _llama,
    ),
    "llama3_json": Format(
        "To call a function, answer with a json object and nothing else:\n"
        '{"name": <function-name>, "parameters": <args-json-object>}',
        "Several calls are separated by semicolons.",
        _llama3_json,
    ),
    "mistral": Format(
        f'To call a function, write:\n{mistral.MARKER} [{{"name": <function-name>, "arguments": <args-json-object>}}]',
        "Several calls are objects of the same list.",
        _mistral,
    ),
    "json": Format(
        "To call a function, answer with a json object and nothing else:\n"
        '{"name": <function-name>, "arguments": <args-json-object>}',
        "Several calls are a JSON array of such objects.",
        _one_or_list,
    ),
    "pythonic": Format(
        "To call a function, answer with a Python list of calls and nothing else:\n"
        "[<function-name>(<argument>=<value>, ...)]",
        "Several calls are entries of the same list.",
        _pythonic,
    ),
}
"""Parser -> the format it reads."""
