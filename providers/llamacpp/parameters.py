"""Assigns an operator's `engine` section to llama.cpp's parameters. It runs in the child process, because only that
imports llama.cpp."""

import difflib
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, TypeAlias

from providers.llamacpp.ranges import RANGES

DEFAULT_SLOTS = 4
"""The default number of concurrent requests. llama.cpp's own default is one."""

ParameterProblem: TypeAlias = tuple[tuple[str, ...], str]
"""The path of a key, and what is wrong or what to write instead."""

_RESERVED_PARAMETERS = {
    "api_keys": "the gateway creates the key",
    "api_prefix": "the gateway sets the path",
    "embedding": "embeddings are not supported",
    "endpoint_metrics": "the gateway sets the engine's endpoints",
    "endpoint_props": "the gateway sets the engine's endpoints",
    "endpoint_slots": "the gateway sets the engine's endpoints",
    "hostnames": "the engine is only reachable through the gateway",
    "model": "write the file as model, beside engine",
    "model_alias": "the names of models are set under models",
    "port": "the engine is only reachable through the gateway",
    "reuse_port": "the engine is only reachable through the gateway",
    "ssl_file_cert": "the engine is only reachable through the gateway",
    "ssl_file_key": "the engine is only reachable through the gateway",
    "ui": "the engine is only reachable through the gateway",
}
"""Parameters that the operator may not set, because the gateway depends on them -> why."""

_TYPE_MESSAGES: dict[type, str] = {
    bool: "write true or false",
    int: "write a whole number",
    float: "write a number",
    str: "write text",
    list: "write a list: [a, b]",
}


def assign_parameters(parameters: Any, values: Mapping[str, Any]) -> list[ParameterProblem]:
    """Sets all valid values on `parameters`. Returns the problems with the others.

    Structures are written nested or with dots: `cpuparams: {n_threads: 2}`, `cpuparams.n_threads: 2`.
    """
    return list(_assign_values(parameters, values, (), _RESERVED_PARAMETERS))


def _assign_values(
    target: Any, values: Mapping[str, Any], path: tuple[str, ...], reserved: Mapping[str, str]
) -> Iterator[ParameterProblem]:
    for key, value in values.items():
        at = (*path, key)
        name, _, rest = key.partition(".")
        if name in reserved:
            yield at, f"{name} cannot be set: {reserved[name]}"
        elif name not in (known := _settable_names(target)):
            nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
            yield at, "llama.cpp has no such parameter" + (f"; did you mean {nearest[0]}?" if nearest else "")
        elif rest:
            yield from _assign_nested(target, name, {rest: value}, at, path)
        else:
            yield from _assign_value(target, name, value, at)


def _assign_nested(
    target: Any, name: str, values: Mapping[str, Any], at: tuple[str, ...], path: tuple[str, ...]
) -> Iterator[ParameterProblem]:
    """Assigns a key with dots. Its problems are reported at the key as it was written."""
    for _, message in _assign_value(target, name, values, (*path, name)):
        yield at, message


def _assign_value(target: Any, name: str, value: Any, at: tuple[str, ...]) -> Iterator[ParameterProblem]:
    current = getattr(target, name)
    kind = type(current)
    if isinstance(current, Enum):
        members = {member.name: member for member in kind}
        if value not in members:
            yield at, f"write one of {', '.join(members)}"
        else:
            setattr(target, name, members[value])
    elif kind not in _TYPE_MESSAGES:
        if isinstance(value, Mapping) and _settable_names(current):
            yield from _assign_values(current, value, at, {})
        else:
            yield (
                at,
                "write keys and values: {key: value}"
                if _settable_names(current)
                else "this parameter cannot be set here",
            )
    elif not _is_of_type(value, kind):
        yield at, _TYPE_MESSAGES[kind]
    elif (allowed := RANGES.get(".".join(at))) is not None and (problem := allowed.find_problem(value)) is not None:
        yield at, problem
    else:
        try:
            setattr(target, name, value)
        except (AssertionError, OverflowError, TypeError, ValueError) as error:
            yield at, f"llama.cpp does not accept this value: {str(error).splitlines()[0]}"


def _is_of_type(value: Any, kind: type) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, int | float if kind is float else kind)


def _settable_names(target: Any) -> list[str]:
    return [name for name in dir(type(target)) if not name.startswith("_") and not callable(getattr(target, name))]
