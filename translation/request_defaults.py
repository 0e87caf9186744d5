"""Adds an operator's defaults to requests of OpenAI's APIs.

The configuration has each default once, under its name in either of the two.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from translation.representation.json_types import Json

_TOKEN_LIMITS: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens")

_MERGED: Final = ("reasoning", "text")
"""Objects whose keys are merged."""


def fill_params(body: Json, defaults: Mapping[str, Any], rename: Callable[[Json], Json]) -> Json:
    """Returns a body with defaults for the parameters that it leaves out. `rename` gives the defaults the API's names.

    Defaults for token limits do not apply if the body has a limit under any of its names.
    """
    filled = dict(body)
    has_limit = any(body.get(name) is not None for name in _TOKEN_LIMITS)
    renamed = rename({name: value for name, value in defaults.items() if not (has_limit and name in _TOKEN_LIMITS)})
    for name, value in renamed.items():
        existing = filled.get(name)
        if existing is None:
            filled[name] = value
        elif name in _MERGED and isinstance(existing, dict) and isinstance(value, dict):
            filled[name] = value | {key: inner for key, inner in existing.items() if inner is not None}
    return filled
