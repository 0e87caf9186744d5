"""Adds a model's `request_defaults` to a request, under the parameter names of the request's API."""

from collections.abc import Callable, Mapping
from typing import Any

from providers.base import Dialect
from translation.gemini.client.defaults import merge_defaults
from translation.messages.client.defaults import fill_defaults
from translation.ollama.client.defaults import add_defaults
from translation.representation.json_types import Json

_TOKEN_LIMIT_PARAMS = ("max_completion_tokens", "max_tokens", "max_output_tokens")

_ALIASES: Mapping[Dialect, dict[str, str]] = {
    "chat": {"max_output_tokens": "max_completion_tokens"},
    "responses": {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"},
}
"""Maps names of parameters in one of OpenAI's APIs to their names in the other, by the API of the body."""

_MERGERS: Mapping[Dialect, Callable[[Json, Mapping[str, Any]], Json]] = {
    "gemini": merge_defaults,
    "messages": fill_defaults,
    "ollama": add_defaults,
}
"""Functions that add the defaults to bodies of other APIs, by API."""

_NESTED_PARAMS = {"reasoning_effort": ("reasoning", "effort"), "verbosity": ("text", "verbosity")}
"""Maps a flat chat parameter to the object and key of the Responses API."""


def apply_request_defaults(body: Json, defaults: Mapping[str, Any], dialect: Dialect) -> Json:
    """Returns `body` with defaults for the parameters it leaves out. `dialect` is the API of the body.

    The config has each default once, under its name in either of OpenAI's APIs. Defaults for token limits do not apply
    if the body has a limit under any of its names. Keys of `reasoning` and `text` are merged.
    """
    if (merge := _MERGERS.get(dialect)) is not None:
        return merge(body, defaults)
    filled = dict(body)
    if any(body.get(name) is not None for name in _TOKEN_LIMIT_PARAMS):
        defaults = {name: value for name, value in defaults.items() if name not in _TOKEN_LIMIT_PARAMS}
    for name, value in _translate_names(defaults, dialect).items():
        existing = filled.get(name)
        if existing is None:
            filled[name] = value
        elif name in ("reasoning", "text") and isinstance(existing, dict) and isinstance(value, dict):
            filled[name] = value | {key: inner for key, inner in existing.items() if inner is not None}
    return filled


def _translate_names(defaults: Mapping[str, Any], dialect: Dialect) -> Json:
    renamed: Json = {_ALIASES[dialect].get(name, name): value for name, value in defaults.items()}
    for flat, (outer, key) in _NESTED_PARAMS.items():
        if dialect == "responses" and flat in renamed:
            renamed[outer] = {**renamed.get(outer, {}), key: renamed.pop(flat)}
        elif dialect == "chat" and isinstance(nested := renamed.get(outer), dict) and nested.keys() == {key}:
            del renamed[outer]
            renamed.setdefault(flat, nested[key])
    return renamed
