"""Finds the client's names for parameters of a turn, which are named as in the Responses API."""

from collections.abc import Mapping, Sequence
from typing import Final

from translation.chat.client.thinking_params import THINKING_PARAMS
from translation.representation.json_types import Json, mapping_or_empty
from translation.representation.param_names import ParamNames

_NAMES: Final = {
    "input": "messages",
    "max_output_tokens": "max_completion_tokens",
    "text": "response_format",
}
"""A turn's parameter -> chat's."""

_THINKING_NAMES: Final[Mapping[str, Sequence[str]]] = {
    "reasoning.effort": ("reasoning_effort", "reasoning.effort", "reasoning.max_tokens", "thinking.budget_tokens"),
    "reasoning.max_tokens": ("reasoning.max_tokens", "thinking.budget_tokens"),
    "thinking": ("thinking", "reasoning.enabled", "reasoning_effort", "reasoning.effort"),
}
"""A turn's parameter about thinking -> chat's that may have said it. The first of them that a body has counts."""

_THINKING_OBJECTS: Final = ("reasoning", "reasoning_effort", "thinking")
"""Chat's parameters that stand for one that none of them has said."""

_UNSAID_NAMES: Final = {"reasoning": "reasoning_effort", "thinking": "reasoning.enabled"}
"""A turn's parameter about thinking -> chat's if a body says nothing about thinking."""

_LEGACY_NAMES: Final = {"tools": "functions", "parallel_tool_calls": "functions", "tool_choice": "function_call"}
"""A turn's parameter -> chat's in the legacy form with `functions`, in which only one function is called at a time."""

_TOKEN_LIMIT: Final = "max_completion_tokens"
_LEGACY_TOKEN_LIMIT: Final = "max_tokens"
"""Chat's deprecated name of the token limit, which clients still send."""

_SEARCH: Final = "web_search_options"
"""Lifted as the last of the turn's tools."""


def _find_param(name: str, place: str, rest: str, body: Json) -> tuple[str, str, str]:
    if name in _UNSAID_NAMES:
        return _find_thinking_param(name, rest, body), "", ""
    if name in body:
        is_search = name == "tools" and place and int(place[1:-1]) >= len(body[name] or ())
        return (_SEARCH, "", "") if is_search else (name, place, rest)
    if name == "text" and rest == ".verbosity":
        return "verbosity", "", ""
    if name in _NAMES:
        name, rest = _NAMES[name], ""
    if name in (_TOKEN_LIMIT, _LEGACY_TOKEN_LIMIT):
        # Some upstreams know one of the two names only, and are sent it whatever the client wrote.
        name = _LEGACY_TOKEN_LIMIT if _LEGACY_TOKEN_LIMIT in body and _TOKEN_LIMIT not in body else _TOKEN_LIMIT
    if body.get("functions") and name in _LEGACY_NAMES:
        return _LEGACY_NAMES[name], place, rest
    if body.get(_SEARCH) is not None and name == "tools":
        return _SEARCH, "", rest
    return name, place, rest


def _find_thinking_param(name: str, rest: str, body: Json) -> str:
    param = name + rest
    for path in (*_THINKING_NAMES.get(param, (param,)), *_THINKING_OBJECTS):
        if _has_value(body, path):
            return path
    return _UNSAID_NAMES[name]


def _has_value(body: Json, path: str) -> bool:
    name, dot, key = path.partition(".")
    value = body.get(name)
    return (mapping_or_empty(value).get(key) if dot else value) is not None


def find_client_name(param: str, body: Json) -> str:
    """Returns the client's name for a parameter of a turn that is no item and no tool, such as `reasoning.effort`."""
    name, dot, key = param.partition(".")
    return "".join(_find_param(name, "", dot + key, body))


PARAM_NAMES: Final = ParamNames(
    input="messages",
    max_output=_TOKEN_LIMIT,
    reasoning="reasoning_effort",
    reasoning_keys=THINKING_PARAMS,
    thinking="thinking",
    text_format="response_format",
    logprobs="logprobs",
    find=_find_param,
    overflow_input="messages",
)
