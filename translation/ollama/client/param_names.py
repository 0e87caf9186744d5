"""Finds the client's names for parameters of a turn, which are named as in the Responses API."""

from collections.abc import Mapping
from typing import Final

from translation.representation.json_types import Json

_NAMES: Final[Mapping[str, str]] = {
    **{name: f"options.{name}" for name in ("frequency_penalty", "presence_penalty", "seed", "stop")},
    **{name: f"options.{name}" for name in ("temperature", "top_p")},
    "instructions": "system",
    "max_output_tokens": "options.num_predict",
    "reasoning": "think",
    "repetition_penalty": "options.repeat_penalty",
    "text": "format",
    "thinking": "think",
}
"""A turn's parameter -> the API's."""


def name_ollama_param(name: str, place: str, rest: str, body: Json) -> tuple[str, str, str]:
    """Returns the client's (name, place, rest) for a turn's parameter: `input`, `[2]`, `.content[0]`.

    Other names are returned unchanged. `body` is the client's.
    """
    if name == "input":
        # A path inside an item has the keys of the Responses API, not those of a message.
        return ("messages", place, "") if "messages" in body else ("prompt", "", "")
    if name in (body.get("options") or {}):
        return f"options.{name}", "", ""
    return (_NAMES[name], "", "") if name in _NAMES and name not in body else (name, place, rest)
