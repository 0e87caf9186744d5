"""Items and parts in the shape of the Responses API: constructors of those the gateway makes, and where text is."""

from typing import Final, NamedTuple, Protocol

from translation.representation.json_types import Item, Json


class NewId(Protocol):
    def __call__(self, prefix: str, /) -> str:
        """Returns a new id that starts with `prefix` and an underscore: `msg_…`, `rs_…`, `fc_…`, `call_…`, `resp_…`."""
        ...


ID_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "local_shell_call": "lsh",
    "shell_call": "sh",
    "apply_patch_call": "apc",
    "tool_search_call": "tsc",
    "computer_call": "cu",
}
"""Item type -> prefix of its id, as in the ids of OpenAI."""

HOSTED_CALL_KINDS: Final = {
    "web_search_call": "web_search",
    "file_search_call": "file_search",
    "code_interpreter_call": "code_interpreter",
    "image_generation_call": "image_generation",
    "mcp_call": "mcp",
    "tool_search_call": "tool_search",
}
"""Type of an item that is the call of a hosted tool -> kind of the tool. A server runs such a call, and its clients do
not run it again. The type of a tool may have a version: web_search_preview_2025_03_11."""

CALL_TYPES: Final = frozenset({"function_call", "custom_tool_call"})
"""Types of items that are calls of tools which the client runs."""

CALL_OUTPUT_TYPES: Final = frozenset({"function_call_output", "custom_tool_call_output"})
"""Types of items that are the outputs of such calls."""


def new_message(item_id: str) -> Item:
    return {"id": item_id, "type": "message", "status": "in_progress", "role": "assistant", "content": []}


def new_reasoning(item_id: str) -> Item:
    return {"id": item_id, "type": "reasoning", "summary": []}


def new_function_call(item_id: str, *, call_id: str, name: str) -> Item:
    return {
        "id": item_id,
        "type": "function_call",
        "status": "in_progress",
        "call_id": call_id,
        "name": name,
        "arguments": "",
    }


def new_custom_tool_call(item_id: str, *, call_id: str, name: str) -> Item:
    return {
        "id": item_id,
        "type": "custom_tool_call",
        "status": "in_progress",
        "call_id": call_id,
        "name": name,
        "input": "",
    }


def new_input_text(text: str) -> Json:
    return {"type": "input_text", "text": text}


def new_output_text() -> Json:
    return {"type": "output_text", "text": "", "annotations": [], "logprobs": []}


def new_refusal() -> Json:
    return {"type": "refusal", "refusal": ""}


def new_reasoning_text() -> Json:
    return {"type": "reasoning_text", "text": ""}


def new_summary_text() -> Json:
    return {"type": "summary_text", "text": ""}


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


POSITION_KEYS: Final = ("start_index", "end_index", "index")
"""The keys of annotations that are positions in their text, in characters."""


def read_span(annotation: Json) -> tuple[int, int]:
    """Returns where the cited text begins and ends, in characters; 0 for a position that is missing or no integer."""
    start, end = (annotation.get(key) for key in ("start_index", "end_index"))
    return start if type(start) is int else 0, end if type(end) is int else 0


def move_annotation(annotation: Json, distance: int) -> Json:
    """Returns an annotation of a text that begins `distance` characters later."""
    if not distance:
        return annotation
    moved = {key: annotation[key] + distance for key in POSITION_KEYS if type(annotation.get(key)) is int}
    return {**annotation, **moved}
