"""The parts of responses that clients get only if they ask for them by `include`. Stored responses have them all."""

from collections.abc import Callable, Collection, Mapping
from operator import itemgetter
from typing import Any, Final

from translation.hosted.tool_report import TOOL_REPORT
from translation.representation.json_types import Item, Json

SEARCH_SOURCES: Final = "web_search_call.action.sources"
FILE_RESULTS: Final = "file_search_call.results"
GATEWAY_REPORT: Final = "gateway.report"
CODE_OUTPUTS: Final = "code_interpreter_call.outputs"


def _hide_sources(item: Item) -> Item:
    action = item.get("action")
    if not isinstance(action, dict) or "sources" not in action:
        return item
    return {**item, "action": {key: value for key, value in action.items() if key != "sources"}}


def _hide_results(item: Item) -> Item:
    return {**item, "results": None} if item.get("results") is not None else item


def _hide_outputs(item: Item) -> Item:
    return {**item, "outputs": None} if item.get("outputs") is not None else item


_HIDDEN: Final[Mapping[str, tuple[str, Callable[[Item], Item]]]] = {
    "web_search_call": (SEARCH_SOURCES, _hide_sources),
    "file_search_call": (FILE_RESULTS, _hide_results),
    "code_interpreter_call": (CODE_OUTPUTS, _hide_outputs),
}
"""Type of an item -> the value of `include` that asks for a part of it, and the function that hides the part."""

_type_of: Final = itemgetter("type")

HIDING_INCLUDES: Final = frozenset(include for include, _ in _HIDDEN.values())
"""The values of `include` that have an effect on these items."""


def show_item(item: Item, included: Collection[str]) -> Item:
    """Returns an item as a client gets it that asked for `included`; the same object if nothing is hidden."""
    kind: Any = item.get("type") if isinstance(item, dict) else None
    entry = _HIDDEN.get(kind) if isinstance(kind, str) else None
    return item if entry is None or entry[0] in included else entry[1](item)


def show_response(response: Json, included: Collection[str]) -> Json:
    """Returns a response as a client gets it that asked for `included`; the same object if nothing is hidden."""
    if TOOL_REPORT in response and GATEWAY_REPORT not in included:
        response = {key: value for key, value in response.items() if key != TOOL_REPORT}
    output: Any = response.get("output")
    try:
        if not output or _HIDDEN.keys().isdisjoint(map(_type_of, output)):
            return response
    except (KeyError, TypeError):  # a relayed response may have anything in its output
        if not isinstance(output, list):
            return response
    return {**response, "output": [show_item(item, included) for item in output]}
