"""Adds an operator's defaults, which have the names of either of OpenAI's APIs, to a request of the Responses API."""

from collections.abc import Mapping
from typing import Any, Final

from translation.representation.json_types import Json
from translation.request_defaults import fill_params, flatten_thinking

_LIMITS: Final = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}

_NESTED: Final = {"reasoning_effort": ("reasoning", "effort"), "verbosity": ("text", "verbosity")}
"""Chat's parameter -> object and key of this API."""


def add_defaults(body: Json, defaults: Mapping[str, Any]) -> Json:
    """Returns a body with defaults for the parameters that it leaves out. Keys of `reasoning` and `text` are merged."""
    return fill_params(body, flatten_thinking(defaults), _rename)


def _rename(defaults: Json) -> Json:
    renamed: Json = {_LIMITS.get(name, name): value for name, value in defaults.items()}
    for flat, (outer, key) in _NESTED.items():
        if flat in renamed:
            renamed[outer] = {**renamed.get(outer, {}), key: renamed.pop(flat)}
    return renamed
