"""The key that accumulates the text of each item or part type. Encoders, decoders and collectors share this table."""

from typing import Final, NamedTuple

from translation.representation.json_types import Json


class TextField(NamedTuple):
    """`<event_prefix>.delta` and `.done` are Responses event types; `key` is the key that accumulates the text."""

    event_prefix: str
    key: str


TEXT_FIELDS: dict[tuple[str, str | None], TextField] = {
    ("message", "output_text"): TextField("response.output_text", "text"),
    ("message", "refusal"): TextField("response.refusal", "refusal"),
    ("reasoning", "reasoning_text"): TextField("response.reasoning_text", "text"),
    ("reasoning", "summary_text"): TextField("response.reasoning_summary_text", "text"),
    ("function_call", None): TextField("response.function_call_arguments", "arguments"),
    ("custom_tool_call", None): TextField("response.custom_tool_call_input", "input"),
    ("mcp_call", None): TextField("response.mcp_call_arguments", "arguments"),
    ("code_interpreter_call", None): TextField("response.code_interpreter_call_code", "code"),
}
"""(item type, part type or None for the item itself) -> its text field. Source: the event types of the official SDK."""

text_field_of: Final = TEXT_FIELDS.get


def text_of(item_type: str, part: Json) -> str:
    """Returns the text of a part of an item; empty for a part that has none."""
    field = text_field_of((item_type, part.get("type")))
    return "" if field is None else part.get(field.key) or ""
