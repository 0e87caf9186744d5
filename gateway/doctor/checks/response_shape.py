"""Reads a response, and raises Wrong where it has not the shape that the API gives it."""

from typing import Any, Final

import orjson

from gateway.doctor.checks.verdicts import CheckFailed, Inconclusive, UnparsedOutput, require
from translation.representation.json_types import Json

_UNPARSED_MARKERS: Final = {
    "<think>": "its thinking is in its text: parsing_format: think_tags reads it out of there",
    "</think>": "its thinking is in its text: parsing_format: think_tags reads it out of there, with think_open: true "
    "where only the end is marked",
    "<tool_call>": "its calls are in its text: tool_parser: hermes reads them out of there",
    "[TOOL_CALLS]": "its calls are in its text: tool_parser: mistral reads them out of there",
    "<|python_tag|>": "its calls are in its text: tool_parser: llama reads them out of there",
}
"""What a model writes where nobody took its text apart -> what to do about it."""


def check_response(response: Json) -> Json:
    """The same response."""
    require(response.get("object") == "response", "the answer is no response")
    require(bool(response.get("id")), "the response has no id")
    # Where a reply is relayed this may be a version of the model that was asked.
    require(isinstance(response.get("model"), str), "the response does not say of which model it is")
    output = response.get("output")
    if not isinstance(output, list) or not all(isinstance(item, dict) and item.get("type") for item in output):
        raise CheckFailed("the output is no list of items")
    status, details = response.get("status"), response.get("incomplete_details")
    require(status in ("completed", "incomplete"), f"the response is {status}")
    require((status == "incomplete") == isinstance(details, dict), f"a response that is {status} says {details}")
    return response


def items_of_type(response: Json, kind: str) -> list[Json]:
    """The items of one type, in order."""
    return [item for item in response["output"] if item["type"] == kind]


def message_text_of(response: Json) -> str:
    """The text of its messages. Raises Wrong also where other things than text are in it."""
    texts = []
    for message in items_of_type(response, "message"):
        for part in message.get("content") or ():
            if not isinstance(part, dict) or part.get("type") not in ("output_text", "refusal"):
                raise CheckFailed("a message has a part that is no text")
            text = part.get("text", part.get("refusal"))
            if not isinstance(text, str):
                raise CheckFailed("a part of a message has no text")
            texts.append(text)
    whole = "".join(texts)
    for mark, advice in _UNPARSED_MARKERS.items():
        if mark in whole:
            raise UnparsedOutput(advice)
    return whole


def require_text(response: Json) -> str:
    """Its text. Raises Untold where it was cut off before any, Wrong where it ended without."""
    text = message_text_of(response)
    if not text.strip():
        if response["status"] == "incomplete":
            raise Inconclusive(f"{describe_cutoff(response)} before it answered")
        raise CheckFailed("the response has no text")
    return text


def describe_cutoff(response: Json) -> str:
    """Why a response is incomplete, in words."""
    return f"it was cut off ({response['incomplete_details'].get('reason')})"


def parse_calls(response: Json, names: set[str]) -> list[tuple[str, str, Json]]:
    """(call id, name, arguments) of its calls, each well-formed and of a tool among `names`."""
    found = []
    for call in items_of_type(response, "function_call"):
        name, call_id = call.get("name"), call.get("call_id")
        if name not in names:
            raise CheckFailed(f"it calls {name}, which is no tool of the request")
        if not isinstance(call_id, str) or not call_id:
            raise CheckFailed(f"a call of {name} has no id")
        found.append((call_id, str(name), _parse_arguments(call)))
    ids = [call_id for call_id, _, _ in found]
    require(len(set(ids)) == len(ids), "two calls have one id")
    return found


def check_usage(usage: Any, input_name: str = "input", output_name: str = "output") -> Json:
    """The same usage: whole numbers that fit each other, under the names that a dialect has for the two sides."""
    if not isinstance(usage, dict):
        raise CheckFailed("the response has no usage")
    sides = (f"{input_name}_tokens", f"{output_name}_tokens")
    for name in (*sides, "total_tokens"):
        value = usage.get(name)
        if type(value) is not int or value < 1:
            raise CheckFailed(f"usage.{name} is {value}")
    total = sum(usage[side] for side in sides)
    require(usage["total_tokens"] == total, f"usage.total_tokens is {usage['total_tokens']}, not {total}")
    for side, inner in zip(sides, ("cached_tokens", "reasoning_tokens"), strict=True):
        part, whole = (usage.get(f"{side}_details") or {}).get(inner) or 0, usage[side]
        require(part <= whole, f"{part} {inner} of {whole} {side}")
    return usage


def _parse_arguments(call: Json) -> Json:
    try:
        arguments = orjson.loads(call.get("arguments") or "")
    except (orjson.JSONDecodeError, TypeError):
        raise CheckFailed(f"the arguments of {call['name']} are no JSON: {str(call.get('arguments'))[:80]}") from None
    if not isinstance(arguments, dict):
        raise CheckFailed(f"the arguments of {call['name']} are no object: {str(arguments)[:80]}")
    return arguments
