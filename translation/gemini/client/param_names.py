"""Finds the client's names for parameters of a turn, which are named as in the Responses API."""

import re
from collections.abc import Mapping
from typing import Final

from translation.representation.json_types import Json
from translation.representation.param_names import ParamNames

_CONFIG: Final = "generationConfig"
_THINKING: Final = f"{_CONFIG}.thinkingConfig"
_CHOICE: Final = "toolConfig.functionCallingConfig"

_NAMES: Final[Mapping[str, str]] = {
    "input": "contents",
    "instructions": "systemInstruction",
    "max_output_tokens": f"{_CONFIG}.maxOutputTokens",
    "temperature": f"{_CONFIG}.temperature",
    "top_p": f"{_CONFIG}.topP",
    "top_k": f"{_CONFIG}.topK",
    "presence_penalty": f"{_CONFIG}.presencePenalty",
    "frequency_penalty": f"{_CONFIG}.frequencyPenalty",
    "seed": f"{_CONFIG}.seed",
    "stop": f"{_CONFIG}.stopSequences",
    "n": f"{_CONFIG}.candidateCount",
    "logprobs": f"{_CONFIG}.responseLogprobs",
    "top_logprobs": f"{_CONFIG}.logprobs",
    "reasoning": _THINKING,
    "reasoning.effort": f"{_THINKING}.thinkingLevel",
    "reasoning.max_tokens": f"{_THINKING}.thinkingBudget",
    "reasoning.summary": f"{_THINKING}.includeThoughts",
    "thinking": f"{_THINKING}.thinkingBudget",
    "tool_choice": _CHOICE,
    "tool_choice.tools": f"{_CHOICE}.allowedFunctionNames",
    "service_tier": "serviceTier",
}
"""A turn's parameter -> the API's."""

_FORMATS: Final = ("responseJsonSchema", "responseSchema", "responseMimeType")

_PART_KEYS: Final[Mapping[str, str]] = {
    "image_url": "inlineData",
    "file_data": "inlineData",
    "input_audio": "inlineData",
    "file_url": "fileData",
    "filename": "inlineData.displayName",
}
_PART_KEY: Final = re.compile(rf"\.({'|'.join(_PART_KEYS)})$")

_PART_PLACE: Final = re.compile(r"\[(\d+)\]\.parts\[(\d+)\]")

_TOOL_PLACE: Final = re.compile(r"\[(\d+)\](.*)")


def _find_param(name: str, place: str, rest: str, body: Json) -> tuple[str, str, str]:
    if name == "text":
        config = body.get(_CONFIG) or {}
        return f"{_CONFIG}.{next((key for key in _FORMATS if key in config), _FORMATS[-1])}", "", ""
    if name == "tools":
        return "tools", *_find_tool(place + rest, body)
    if (whole := _NAMES.get(name + rest)) is not None:
        return whole, place, ""
    if name == "input":
        rest = rest.replace(".content[", ".parts[")
        return "contents", place, _PART_KEY.sub(lambda key: f".{_name_medium(key[1], place, rest, body)}", rest)
    return (_NAMES[name], place, "") if name in _NAMES else (name, place, rest)


def _name_medium(key: str, place: str, rest: str, body: Json) -> str:
    """Returns the client's key for a key of a turn's part: images may be addresses or bytes."""
    match = _PART_PLACE.match(place + rest)
    if match is not None and key == "image_url":
        content, part = int(match[1]), int(match[2])
        parts = body["contents"][content]["parts"] if content < len(body.get("contents") or ()) else ()
        if part < len(parts) and "fileData" in parts[part]:
            return "fileData"
    return _PART_KEYS[key]


def _find_tool(place: str, body: Json) -> tuple[str, str]:
    """Returns the place of a turn's tool: a declaration in one of the API's tools."""
    match = _TOOL_PLACE.fullmatch(place)
    if match is None:
        return "", place
    position = int(match[1])
    for index, tool in enumerate(body.get("tools") or ()):
        for key, value in tool.items():
            count = len(value) if key == "functionDeclarations" else 1
            if position < count:
                inner = f"[{position}]" if key == "functionDeclarations" else ""
                return f"[{index}]", f".{key}{inner}{match[2]}"
            position -= count
    return "", ""


PARAM_NAMES: Final = ParamNames(
    input="contents",
    max_output=_NAMES["max_output_tokens"],
    reasoning=_THINKING,
    reasoning_keys=frozenset({_CONFIG}),
    thinking=_THINKING,
    text_format=f"{_CONFIG}.responseMimeType",
    logprobs=_NAMES["logprobs"],
    find=_find_param,
    overflow_input="contents",
)
