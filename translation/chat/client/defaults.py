"""Adds an operator's defaults, which have the names of either of OpenAI's APIs, to a chat request."""

from collections.abc import Mapping
from typing import Any, Final

from translation.representation.json_types import Json
from translation.request_defaults import fill_params

_NESTED: Final = {("reasoning", "effort"): "reasoning_effort", ("text", "verbosity"): "verbosity"}
"""Object and key of the Responses API -> chat's parameter."""


def add_defaults(body: Json, defaults: Mapping[str, Any]) -> Json:
    """Returns a body with defaults for the parameters that it leaves out. Objects of the Responses API are left as they
    are if they have more than chat has a parameter for."""
    return fill_params(body, defaults, _rename)


def _rename(defaults: Json) -> Json:
    renamed = {"max_completion_tokens" if name == "max_output_tokens" else name: defaults[name] for name in defaults}
    for (outer, key), flat in _NESTED.items():
        if isinstance(nested := renamed.get(outer), dict) and nested.keys() == {key}:
            del renamed[outer]
            renamed.setdefault(flat, nested[key])
    return renamed
