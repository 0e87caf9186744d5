"""Requests with tools and a format for the answer. Servers apply the format to all of the output, so that the model can
call no tool, and report nothing."""

from typing import Any, Final

from translation.representation.json_types import Json, mapping_or_empty
from translation.representation.loss import Loss

NOT_CALLED: Final = Loss("tools", "not called beside a format")

_JSON_TYPES: Final = ("json_schema", "json_object")


def prevents_calls(tools: Any, choice: Any, text_format: Any) -> bool:
    """Whether the model may call one of the tools, but cannot because its answer must be JSON.

    `choice` is a tool choice of any API. A call that must be made is none of these: the format is left out for it, or
    the server itself ignores the format.
    """
    if not tools or mapping_or_empty(text_format).get("type") not in _JSON_TYPES:
        return False
    if isinstance(choice, dict):
        choice = mapping_or_empty(choice.get("allowed_tools") or choice).get("mode") or choice.get("type")
    return choice in (None, "auto")


def prevents_relayed_calls(body: Json) -> bool:
    """Returns the same for a body of chat, Responses or Messages."""
    text_format = (
        body.get("response_format")
        or mapping_or_empty(body.get("text")).get("format")
        or mapping_or_empty(body.get("output_config")).get("format")
    )
    return prevents_calls(body.get("tools"), body.get("tool_choice"), text_format)
