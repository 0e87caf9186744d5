"""Shows a model the calls of hosted tools in the input of a request whose own tools the gateway does not run."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from gateway.tools.code_interpreter.form import CODE_INTERPRETER_FORM
from gateway.tools.file_search.form import FILE_SEARCH_FORM
from gateway.tools.web_search.form import FORM as WEB_SEARCH_FORM
from providers.base import Capabilities
from translation.hosted.call_forms import MCP_FORMS, CallForm, PastHostedCall
from translation.hosted.citations.citation_table import CitationTable, MarkedResult
from translation.hosted.citations.cited_parts import CitedParts
from translation.hosted.past_hosted_calls import resolve_history
from translation.hosted.tool_search.search_form import SEARCH_FORM
from translation.hosted.tools import ToolKey, model_name_of
from translation.representation.delta_runs import EventStage, TextKey, TextObserver
from translation.representation.events import Event
from translation.representation.items import HOSTED_CALL_KINDS
from translation.representation.turn import Turn
from translation.tools.searches import WEB_SEARCH

PAST_FORMS: Final[Mapping[str, CallForm]] = {
    **MCP_FORMS,
    **{form.item_type: form for form in (CODE_INTERPRETER_FORM, FILE_SEARCH_FORM, WEB_SEARCH_FORM, SEARCH_FORM)},
}
"""The forms of the calls of all hosted tools, by the types of their items."""

_OWN_SERVERS: Final = frozenset({"code_interpreter", "file_search", "web_search", "tool_search"})
"""What stands in the keys of tools for a server, if the gateway itself is the one."""

_ANSWER: Final = "mcp_approval_response"


def show_past_calls(turn: Turn, can: Capabilities) -> tuple[Turn, CitationTable]:
    """Returns the turn with past calls of hosted tools as function calls with their results, and what the markers in
    these results stand for.

    Calls of kinds that the upstream runs itself stay as they are, and so do all if the upstream knows no function calls
    or if an answer to a request for an approval is among them, since that may ask for a call.
    """
    citations = CitationTable()
    types = turn.item_types
    if types.isdisjoint(PAST_FORMS) or not can.tools or _ANSWER in types:
        return turn, citations
    native = can.tool_kinds | can.hosted_tools
    forms = {name: form for name, form in PAST_FORMS.items() if not _runs(native, HOSTED_CALL_KINDS[name])}
    if types.isdisjoint(forms):
        return turn, citations

    own_names = {tool.get("name") for tool in turn.tools}
    searches = PastSearches(can.trained_tools)

    def find_name(key: ToolKey) -> str:
        # The name that the model knows the tool by in responses that offer it.
        return key.name if key.server in _OWN_SERVERS and key.name not in own_names else model_name_of(key)

    def adapt_call(_call_id: str, call: PastHostedCall) -> PastHostedCall:
        past_call = searches.adapt(call, find_name)
        return past_call._replace(output=citations.adopt(MarkedResult(call.output, call.citables)).text)

    items = resolve_history(turn.items, find_name, forms=forms, adapt_call=adapt_call).items
    if searches.trained_names:
        return replace(turn, items=items, trained_names=searches.trained_names), citations
    return replace(turn, items=items), citations


class PastSearches:
    """Shows past web searches as the tool that a model knows from its training, although the request does not offer it:
    as functions they would teach the model functions that do not exist."""

    def __init__(self, trained_tools: Collection[str]) -> None:
        self._trained_tools: Final = trained_tools
        self.trained_names: Final[dict[str, str]] = {}
        """The names by which the model knows the functions of the calls that were shown."""

    def adapt(self, call: PastHostedCall, find_name: Callable[[ToolKey], str]) -> PastHostedCall:
        """Returns a call with its arguments in the form of the training, if it is a search that the model was trained
        with."""
        if not self._trained_tools or call.server != WEB_SEARCH:
            return call
        from gateway.tools.web_search.shapes import find_shape

        shape = find_shape(self._trained_tools)
        if (trained_name := shape.trained_names.get(call.name)) is None:
            return call
        self.trained_names[find_name(ToolKey(call.server, call.name))] = trained_name
        return call._replace(arguments=shape.adapt_arguments(call.arguments))


def _runs(native: frozenset[str], kind: str) -> bool:
    """Whether an upstream runs a kind of tools. The types of its tools may have versions."""
    return any(name.startswith(kind) for name in native)


class PastResultCiter:
    """Replaces the markers of past results in the answers of a reply, and passes the events to the next stage."""

    def __init__(self, citations: CitationTable, next_stage: EventStage | None) -> None:
        self._cited_parts: Final = CitedParts(citations)
        self._next_stage: Final = next_stage

    def feed(self, batch: Sequence[Event], /) -> Sequence[Event]:
        cited = [each for event in batch for each in self._cited_parts.feed(event)]
        return cited if self._next_stage is None else self._next_stage.feed(cited)

    def delta_observers(self, text_key: TextKey, /) -> Sequence[TextObserver] | None:
        if self._cited_parts.has_text(text_key):
            return None
        return () if self._next_stage is None else self._next_stage.delta_observers(text_key)
