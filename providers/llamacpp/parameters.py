"""An operator's `engine` section onto llama.cpp's parameters. Runs in the child, which alone imports those."""

import difflib
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, TypeAlias

from providers.llamacpp.ranges import RANGES

DEFAULT_SLOTS = 4
"""Requests at once, where the operator says nothing; llama.cpp's own default is one after the other."""

ParameterProblem: TypeAlias = tuple[tuple[str, ...], str]
"""The path of a key, and what to write instead."""

_RESERVED_PARAMETERS = {
    "api_keys": "the gateway makes a key of its own",
    "api_prefix": "the gateway knows where it asks",
    "embedding": "models that answer are served here, no embeddings",
    "endpoint_metrics": "the gateway decides what its engine tells",
    "endpoint_props": "the gateway decides what its engine tells",
    "endpoint_slots": "the gateway decides what its engine tells",
    "hostnames": "it is reached through the gateway only",
    "model": "write the file as model, beside engine",
    "model_alias": "names are given under models",
    "port": "it is reached through the gateway only",
    "reuse_port": "it is reached through the gateway only",
    "ssl_file_cert": "it is reached through the gateway only",
    "ssl_file_key": "it is reached through the gateway only",
    "ui": "it is reached through the gateway only",
}
"""Parameters that would take the engine out of the gateway's hands."""

_TYPE_MESSAGES: dict[type, str] = {
    bool: "write true or false",
    int: "write a whole number",
    float: "write a number",
    str: "write text",
    list: "write a list: [a, b]",
}


def assign_parameters(parameters: Any, values: Mapping[str, Any]) -> list[ParameterProblem]:
    """Set what is given, as far as it can be; everything that is wrong with the rest.

    Structures are written as they are or with dots: `cpuparams: {n_threads: 2}`, `cpuparams.n_threads: 2`.
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
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
            yield at, "llama.cpp has no such parameter" + (f"; did you mean {near[0]}?" if near else "")
        elif rest:
            yield from _assign_nested(target, name, {rest: value}, at, path)
        else:
            yield from _assign_value(target, name, value, at)


def _assign_nested(
    target: Any, name: str, values: Mapping[str, Any], at: tuple[str, ...], path: tuple[str, ...]
) -> Iterator[ParameterProblem]:
    """A key with dots: its complaints stand at the key as it was written."""
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
    elif (allowed := RANGES.get(".".join(at))) is not None and (problem := allowed.problem_of(value)) is not None:
        yield at, problem
    else:
        try:
            setattr(target, name, value)
        except (AssertionError, OverflowError, TypeError, ValueError) as error:
            yield at, f"llama.cpp does not take this: {str(error).splitlines()[0]}"


def _is_of_type(value: Any, kind: type) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, int | float if kind is float else kind)


def _settable_names(target: Any) -> list[str]:
    return [name for name in dir(type(target)) if not name.startswith("_") and not callable(getattr(target, name))]
