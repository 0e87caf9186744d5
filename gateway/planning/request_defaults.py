"""What a model's `request_defaults` add to a request, in the words of the API it came by."""

from collections.abc import Mapping
from typing import Any

from providers.base import Dialect
from translation.representation.json_types import Json

_TOKEN_LIMIT_PARAMS = ("max_completion_tokens", "max_tokens", "max_output_tokens")

_ALIASES: dict[Dialect, dict[str, str]] = {
    "chat": {"max_output_tokens": "max_completion_tokens"},
    "responses": {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"},
}
"""The other API's name -> this one's."""

_NESTED_PARAMS = {"reasoning_effort": ("reasoning", "effort"), "verbosity": ("text", "verbosity")}
"""Chat's name -> the Responses API's object and key."""


def apply_request_defaults(body: Json, defaults: Mapping[str, Any], dialect: Dialect) -> Json:
    """`body` with what it leaves out. An operator writes each default once, by either API's name."""
    filled = dict(body)
    if any(body.get(name) is not None for name in _TOKEN_LIMIT_PARAMS):
        defaults = {name: value for name, value in defaults.items() if name not in _TOKEN_LIMIT_PARAMS}
    for name, value in _translate_names(defaults, dialect).items():
        given = filled.get(name)
        if given is None:
            filled[name] = value
        elif name in ("reasoning", "text") and isinstance(given, dict) and isinstance(value, dict):
            filled[name] = value | {key: inner for key, inner in given.items() if inner is not None}
    return filled


def _translate_names(defaults: Mapping[str, Any], dialect: Dialect) -> Json:
    spelled: Json = {_ALIASES[dialect].get(name, name): value for name, value in defaults.items()}
    for flat, (outer, key) in _NESTED_PARAMS.items():
        if dialect == "responses" and flat in spelled:
            spelled[outer] = {**spelled.get(outer, {}), key: spelled.pop(flat)}
        elif dialect == "chat" and isinstance(nested := spelled.get(outer), dict) and nested.keys() == {key}:
            del spelled[outer]
            spelled.setdefault(flat, nested[key])
    return spelled
