"""The items of a search for tools: a call, and behind it an item with the tools that it loaded."""

from collections.abc import Callable, Iterable
from typing import Any, Final

import orjson

from translation.hosted.call_forms import CallForm, CallView, PastHostedCall
from translation.hosted.outcomes import ToolOutcome
from translation.lowering.client_search import OUTPUT_ITEM, TOOL_SEARCH, is_of_server, iterate_names
from translation.representation.json_types import Item, Json

_LOADED: Final = "Loaded: "
_NOTHING: Final = "No tool was found. Search with other words, or answer without one."


def write_loaded(names: list[str]) -> str:
    """Returns the text that the model gets as the result of a search that found these tools."""
    return _LOADED + ", ".join(names) if names else _NOTHING


class ToolSearchForm(CallForm):
    """Items of the type `tool_search_call`. They have no events besides those of all items."""

    item_type = "tool_search_call"
    id_prefix = "tsc"
    has_phases = False
    failed_status = "incomplete"
    output_type = OUTPUT_ITEM

    def reads(self, item: Item) -> bool:
        return is_of_server(item)

    def build_fields(self, call: CallView) -> Json:
        return {"arguments": _parse(call.arguments), "call_id": None, "execution": "server"}

    def count_results(self, outcome: ToolOutcome) -> int:
        return len(_read_names(outcome.output or ""))

    def build_output_item(
        self, item_id: str, outcome: ToolOutcome, load: Callable[[Iterable[str]], list[Json]]
    ) -> Item | None:
        text = outcome.output or ""
        if outcome.failed:
            return None
        return {
            "id": item_id.replace(self.id_prefix, "tso", 1),
            "type": OUTPUT_ITEM,
            "call_id": None,
            "execution": "server",
            "status": "completed",
            "tools": load(_read_names(text)),
        }

    def read_past(self, item: Item) -> PastHostedCall:
        arguments = item.get("arguments")
        text = orjson.dumps(arguments if isinstance(arguments, dict) else {}).decode()
        return PastHostedCall(TOOL_SEARCH, TOOL_SEARCH, text, _NOTHING)

    def read_output(self, item: Item) -> str:
        return write_loaded([*iterate_names(item.get("tools"))])


SEARCH_FORM: Final = ToolSearchForm()


def _read_names(text: str) -> list[str]:
    """Returns the names that `write_loaded` wrote."""
    return text.removeprefix(_LOADED).split(", ") if text.startswith(_LOADED) else []


def _parse(arguments: str) -> Any:
    try:
        parsed = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
