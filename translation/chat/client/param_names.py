"""Finds the client's names for parameters of a turn, which are named as in the Responses API."""

from typing import Final

from translation.chat.client.thinking_params import THINKING_PARAMS
from translation.representation.json_types import Json
from translation.representation.param_names import ParamNames

_NAMES: Final = {
    "input": "messages",
    "max_output_tokens": "max_completion_tokens",
    "reasoning": "reasoning_effort",
    "text": "response_format",
}
"""A turn's parameter -> chat's."""

_LEGACY_NAMES: Final = {"tools": "functions", "parallel_tool_calls": "functions", "tool_choice": "function_call"}
"""A turn's parameter -> chat's in the legacy form with `functions`, in which only one function is called at a time."""

_TOKEN_LIMIT: Final = "max_completion_tokens"
_LEGACY_TOKEN_LIMIT: Final = "max_tokens"
"""Chat's deprecated name of the token limit, which clients still send."""

_SEARCH: Final = "web_search_options"
"""Lifted as the last of the turn's tools."""


def _find_param(name: str, place: str, rest: str, body: Json) -> tuple[str, str, str]:
    if name in body:
        is_search = name == "tools" and place and int(place[1:-1]) >= len(body[name] or ())
        return (_SEARCH, "", "") if is_search else (name, place, rest)
    thinking = body.get("thinking")
    if name == "reasoning" and thinking is not None and body.get("reasoning_effort") is None:
        is_budget = rest == ".max_tokens" and isinstance(thinking, dict)
        return "thinking", "", ".budget_tokens" if is_budget else ""
    if name == "text" and rest == ".verbosity":
        return "verbosity", "", ""
    if name in _NAMES:
        name, rest = _NAMES[name], ""
    if name in (_TOKEN_LIMIT, _LEGACY_TOKEN_LIMIT):
        # Some upstreams know one of the two names only, and are sent it whatever the client wrote.
        name = _LEGACY_TOKEN_LIMIT if _LEGACY_TOKEN_LIMIT in body and _TOKEN_LIMIT not in body else _TOKEN_LIMIT
    if name == "thinking":
        return "reasoning", "", ".enabled"
    if body.get("functions") and name in _LEGACY_NAMES:
        return _LEGACY_NAMES[name], place, rest
    if body.get(_SEARCH) is not None and name == "tools":
        return _SEARCH, "", rest
    return name, place, rest


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
