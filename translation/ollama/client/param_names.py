"""Finds the client's names for parameters of a turn, which are named as in the Responses API."""

from collections.abc import Mapping
from typing import Final

from translation.representation.json_types import Json
from translation.representation.param_names import ParamNames

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


def _find_param(name: str, place: str, rest: str, body: Json) -> tuple[str, str, str]:
    if name == "input":
        # A path inside an item has the keys of the Responses API, not those of a message.
        return ("messages", place, "") if "messages" in body else ("prompt", "", "")
    if name in (body.get("options") or {}):
        return f"options.{name}", "", ""
    return (_NAMES[name], "", "") if name in _NAMES and name not in body else (name, place, rest)


PARAM_NAMES: Final = ParamNames(
    input="messages",
    max_output=_NAMES["max_output_tokens"],
    reasoning="think",
    reasoning_keys=frozenset({"think"}),
    thinking="think",
    text_format="format",
    logprobs="logprobs",
    find=_find_param,
    overflow_input="messages",
)
