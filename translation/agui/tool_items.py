"""Renders items of the Responses API that are calls of tools for AG-UI: as a tool call, and its result as text."""

from collections.abc import Callable
from typing import Final, NamedTuple

import orjson

from translation.hosted.call_forms import output_text_of
from translation.hosted.tools import ToolKey, model_name_of
from translation.representation.json_types import Item, Json

STREAMED_TYPES: Final = frozenset({"function_call", "mcp_call"})
"""Types of calls whose arguments are sent as they are generated.

The arguments of other calls are built from the whole item.
"""

_FACT_KEYS: Final = frozenset({"id", "type", "status", "call_id", "output", "created_by"})
"""Keys of a call that are not part of its arguments."""


class ToolCallView(NamedTuple):
    """A call as AG-UI has it. `arguments` is JSON text."""

    call_id: str
    name: str
    arguments: str


def view_call(item: Item) -> ToolCallView | None:
    """Returns an output item as a call; None for items that are no calls.

    The call of a hosted tool has the id of its item. An approved call has the id of the request for the approval,
    because for the client both are one call. A request for an approval is a call as well. All items of a call that asks
    for input are one call, with the id of the first item.
    """
    kind = item["type"]
    if kind == "function_call":
        return ToolCallView(item["call_id"], item["name"], item.get("arguments") or "")
    if kind == "custom_tool_call":
        return ToolCallView(item["call_id"], item["name"], _dump({"input": item.get("input") or ""}))
    if kind in ("mcp_call", "mcp_approval_request"):
        name = model_name_of(ToolKey(item["server_label"], item["name"]))
        call_id = item.get("continues") or item.get("approval_request_id") or item["id"]
        return ToolCallView(call_id, name, item.get("arguments") or "")
    if (view := _HOSTED_ARGUMENTS.get(kind)) is not None:
        return ToolCallView(item["id"], kind.removesuffix("_call"), _dump(view(item)))
    if isinstance(call_id := item.get("call_id"), str) and kind.endswith("_call"):
        facts = {key: value for key, value in item.items() if key not in _FACT_KEYS}
        return ToolCallView(call_id, kind.removesuffix("_call"), _dump(facts))
    return None


def require_call(item: Item) -> ToolCallView:
    """Returns an output item as a call. Raises ValueError for items that are no calls."""
    if (call := view_call(item)) is None:
        raise ValueError(f"items of the type {item['type']} are no calls")
    return call


def is_hosted_call(item: Item) -> bool:
    """Whether an item is a call of a tool that is not the client's to run, so that its result is in the item."""
    return item["type"] in _RESULTS


def render_result(item: Item) -> str:
    """Returns the result of a hosted call as text, or what went wrong with it."""
    return _RESULTS[item["type"]](item) or str(item.get("status") or "completed")


def is_call_output(item: Item) -> bool:
    """Whether an item is the output of a call, by its id."""
    return item["type"].endswith("_call_output") and isinstance(item.get("call_id"), str)


def render_output(item: Item) -> str:
    """Returns the output of a call that an upstream ran itself, as text: the output of a shell, or JSON."""
    output = item.get("output")
    if isinstance(output, str):
        return output
    results = output if isinstance(output, list) else []
    texts = [str(part.get(key) or "") for part in results if isinstance(part, dict) for key in ("stdout", "stderr")]
    return "".join(texts) or orjson.dumps(output).decode()


def _dump(value: Json) -> str:
    return orjson.dumps(value).decode()


def _search_result(item: Item) -> str:
    sources = (item.get("action") or {}).get("sources") or ()
    return "\n".join(source["url"] for source in sources if isinstance(source, dict) and source.get("url"))


def _file_search_result(item: Item) -> str:
    results = [result for result in item.get("results") or () if isinstance(result, dict)]
    return "\n".join(str(result.get("filename") or result.get("file_id") or "") for result in results)


def _code_result(item: Item) -> str:
    outputs = [output for output in item.get("outputs") or () if isinstance(output, dict)]
    return "\n".join(str(output.get("logs") or output.get("url") or "") for output in outputs)


def _image_result(item: Item) -> str:
    return f"image {item['id']}" if item.get("result") else ""


_HOSTED_ARGUMENTS: Final[dict[str, Callable[[Item], Json]]] = {
    "web_search_call": lambda item: item.get("action") or {},
    "file_search_call": lambda item: {"queries": item.get("queries") or []},
    "code_interpreter_call": lambda item: {"code": item.get("code") or ""},
    "image_generation_call": lambda item: {},
}
"""Type of a hosted call -> the function that returns its arguments."""

_RESULTS: Final[dict[str, Callable[[Item], str]]] = {
    "mcp_call": output_text_of,
    "web_search_call": _search_result,
    "file_search_call": _file_search_result,
    "code_interpreter_call": _code_result,
    "image_generation_call": _image_result,
}
"""Type of a hosted call -> its result as text."""
