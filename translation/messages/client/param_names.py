"""Finds the client's names for parameters of a turn, which are named as in the Responses API."""

import re
from typing import Final

from translation.representation.json_types import Json
from translation.representation.param_names import ParamNames

_NAMES: Final = {
    "input": "messages",
    "instructions": "system",
    "max_output_tokens": "max_tokens",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
    "reasoning": "thinking",
    "reasoning.effort": "output_config.effort",
    "reasoning.max_tokens": "thinking.budget_tokens",
    "safety_identifier": "metadata.user_id",
    "stop": "stop_sequences",
    "text": "output_config.format",
    "user": "metadata.user_id",
}
"""A turn's parameter, or the first step of its path -> the API's."""

_BLOCK_KEYS: Final = {
    "image_url": "source",
    "file_url": "source",
    "file_data": "source",
    "file_id": "source.file_id",
    "filename": "title",
}
"""Key of a turn's part -> key of a content block."""

_SERVERS: Final = {
    "": "mcp_servers",
    ".authorization": "mcp_servers.authorization_token",
    ".server_label": "mcp_servers.name",
    ".server_url": "mcp_servers.url",
}

_SEARCH_FILTERS: Final = ".filters"
"""The key of a turn's search tools whose keys are keys of the tool itself in this API."""

_BLOCK_KEY: Final = re.compile(rf"\.({'|'.join(_BLOCK_KEYS)})$")

_CALL_ID: Final = ".call_id"
"""The key of a turn's call or result that is a key of one of the blocks of a message."""


def _find_param(name: str, place: str, rest: str, body: Json) -> tuple[str, str, str]:
    if name in body:
        return name, place, rest.removeprefix(_SEARCH_FILTERS) if name == "tools" else rest
    if name == "reasoning" and not rest and not body.get("thinking"):
        return "output_config", "", ".effort"
    if name == "text" and body.get("output_format") is not None:
        return "output_format", "", ""
    if (whole := _NAMES.get(name + rest)) is not None:
        return whole, place, ""
    rest = _BLOCK_KEY.sub(lambda key: f".{_BLOCK_KEYS[key[1]]}", rest)
    if name in _NAMES:
        return _NAMES[name], place, "" if name in ("reasoning", "text") or rest == _CALL_ID else rest
    return name, place, rest


PARAM_NAMES: Final = ParamNames(
    input="messages",
    max_output="max_tokens",
    reasoning="thinking",
    reasoning_keys=frozenset({"thinking"}),
    thinking="thinking",
    text_format="output_config.format",
    logprobs="logprobs",
    find=_find_param,
    overflow_input="messages",
    servers=_SERVERS,
)
