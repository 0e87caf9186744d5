"""Which key accumulates the text of which noun. Encoders, decoders and collectors share this one table."""

from typing import Final, NamedTuple


class Channel(NamedTuple):
    """`<name>.delta` and `<name>.done` are the Responses event types; `key` is the key the text adds up in."""

    name: str
    key: str


CHANNELS: dict[tuple[str, str | None], Channel] = {
    ("message", "output_text"): Channel("response.output_text", "text"),
    ("message", "refusal"): Channel("response.refusal", "refusal"),
    ("reasoning", "reasoning_text"): Channel("response.reasoning_text", "text"),
    ("reasoning", "summary_text"): Channel("response.reasoning_summary_text", "text"),
    ("function_call", None): Channel("response.function_call_arguments", "arguments"),
    ("custom_tool_call", None): Channel("response.custom_tool_call_input", "input"),
    ("mcp_call", None): Channel("response.mcp_call_arguments", "arguments"),
    ("code_interpreter_call", None): Channel("response.code_interpreter_call_code", "code"),
}
"""(item type, part type or None for the item itself) -> where its text goes. Source: the official SDK's event types."""

channel_of: Final = CHANNELS.get
