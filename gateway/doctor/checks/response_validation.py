"""Validates the shape of responses. Deviations from the API raise CheckFailed."""

from typing import Any, Final

import orjson

from gateway.doctor.checks.verdicts import CheckFailed, Inconclusive, UnparsedOutput, require
from translation.representation.json_types import Json

_UNPARSED_MARKERS: Final = {
    "<think>": "its thinking is in its text: write parsing_format: think_tags to parse it",
    "</think>": "its thinking is in its text: write parsing_format: think_tags to parse it, with think_open: true if "
    "only its end is marked",
    "<tool_call>": "its calls are in its text: write tool_parser: hermes to parse them",
    "[TOOL_CALLS]": "its calls are in its text: write tool_parser: mistral to parse them",
    "<|python_tag|>": "its calls are in its text: write tool_parser: llama3_json to parse them",
    "<function=": "its calls are in its text: write tool_parser: llama to parse them",
}
"""Markup in text that was not parsed -> the advice for it."""


def check_response(response: Json) -> Json:
    """Validates a whole response and returns it. Raises CheckFailed."""
    require(response.get("object") == "response", "the reply is not a response")
    require(bool(response.get("id")), "the response has no id")
    # In a relayed reply this may be a specific version of the requested model.
    require(isinstance(response.get("model"), str), "the response has no model")
    output = response.get("output")
    if not isinstance(output, list) or not all(isinstance(item, dict) and item.get("type") for item in output):
        raise CheckFailed("the output is not a list of items")
    status, details = response.get("status"), response.get("incomplete_details")
    require(status in ("completed", "incomplete"), f"the response is {status}")
    require(
        (status == "incomplete") == isinstance(details, dict), f"a response that is {status} has the details {details}"
    )
    return response


def items_of_type(response: Json, kind: str) -> list[Json]:
    """Returns the items of one type, in order."""
    return [item for item in response["output"] if item["type"] == kind]


def message_text_of(response: Json) -> str:
    """Returns the text of a response's messages.

    Raises CheckFailed if a message has parts other than text, and UnparsedOutput if the text has unparsed markup.
    """
    texts = []
    for message in items_of_type(response, "message"):
        for part in message.get("content") or ():
            if not isinstance(part, dict) or part.get("type") not in ("output_text", "refusal"):
                raise CheckFailed("a message has a part that is not text")
            part_text = part.get("text", part.get("refusal"))
            if not isinstance(part_text, str):
                raise CheckFailed("a part of a message has no text")
            texts.append(part_text)
    text = "".join(texts)
    for marker, advice in _UNPARSED_MARKERS.items():
        if marker in text:
            raise UnparsedOutput(advice)
    return text


def require_text(response: Json) -> str:
    """Returns the text of a response.

    Raises Inconclusive if it was cut off before any text, and CheckFailed if it completed without text.
    """
    text = message_text_of(response)
    if not text.strip():
        if response["status"] == "incomplete":
            raise Inconclusive(f"{describe_cutoff(response)} before it answered")
        raise CheckFailed("the response has no text")
    return text


def describe_cutoff(response: Json) -> str:
    """Returns the reason why a response is incomplete, as text."""
    return f"it was cut off ({response['incomplete_details'].get('reason')})"


def parse_calls(response: Json, names: set[str]) -> list[tuple[str, str, Json]]:
    """Returns (call id, name, arguments) of the response's calls.

    Raises CheckFailed for a malformed call, and for a call of a tool that is not in `names`.
    """
    calls = []
    for call in items_of_type(response, "function_call"):
        name, call_id = call.get("name"), call.get("call_id")
        if name not in names:
            raise CheckFailed(f"it calls {name}, which is not a tool of the request")
        if not isinstance(call_id, str) or not call_id:
            raise CheckFailed(f"a call of {name} has no id")
        calls.append((call_id, str(name), _parse_arguments(call)))
    ids = [call_id for call_id, _, _ in calls]
    require(len(set(ids)) == len(ids), "two calls have the same id")
    return calls


def check_usage(usage: Any, input_name: str = "input", output_name: str = "output") -> Json:
    """Validates a usage object and returns it. Raises CheckFailed unless its numbers are positive and consistent.

    `input_name` and `output_name` are the dialect's names of the two sides.
    """
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
        part, total = (usage.get(f"{side}_details") or {}).get(inner) or 0, usage[side]
        require(part <= total, f"usage has {part} {inner} of {total} {side}")
    return usage


def _parse_arguments(call: Json) -> Json:
    try:
        arguments = orjson.loads(call.get("arguments") or "")
    except (orjson.JSONDecodeError, TypeError):
        raise CheckFailed(f"the arguments of {call['name']} are not JSON: {str(call.get('arguments'))[:80]}") from None
    if not isinstance(arguments, dict):
        raise CheckFailed(f"the arguments of {call['name']} are not an object: {str(arguments)[:80]}")
    return arguments
