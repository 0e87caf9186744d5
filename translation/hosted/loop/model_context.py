"""What the model of a response with hosted tools reads: the items of its turn, and those of the rounds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from translation.hosted.calls import HostedCall, build_model_items
from translation.hosted.citations.citation_table import CitationTable, build_result_details, read_result_details
from translation.hosted.outcomes import ToolOutcome
from translation.hosted.past_hosted_calls import ApprovedCall
from translation.hosted.result_reader import ResultReader
from translation.hosted.tool_search.deferred_tools import DeferredTools
from translation.representation.json_types import Item


class ModelContext:
    """The items that the model reads, in terms of function calls. `reader` cuts results that are too long.

    `sources` has the items of the API for the calls among them, by their `call_id`. `citations` is what the markers
    among them stand for, and `deferred` are the tools that the model does not see yet.
    """

    def __init__(
        self,
        items: Sequence[Item],
        reader: ResultReader,
        sources: Mapping[str, Sequence[Item]] | None = None,
        citations: CitationTable | None = None,
        deferred: DeferredTools | None = None,
    ) -> None:
        self.items: list[Item] = [*items]
        self.reader: Final = reader
        self.sources: Final[dict[str, Sequence[Item]]] = {**(sources or {})}
        self.citations: Final = CitationTable() if citations is None else citations
        self.deferred: Final = DeferredTools() if deferred is None else deferred

    def append_entries(self, entries: Sequence[Item | HostedCall]) -> None:
        """Appends the items and the calls of one round."""
        self._record_sources(entries)
        self.items += build_model_items(entries, self.reader)

    def insert_approved(self, approved: Sequence[tuple[HostedCall, ApprovedCall]]) -> None:
        """Inserts the outputs of the approved calls behind their function calls, which the items have already."""
        self._record_sources(call for call, _ in approved)
        items: list[Item] = []
        position = 0
        for call, approval in approved:
            items += self.items[position : approval.position]
            items.append(call.build_model_items(self.reader)[1])
            position = approval.position
        self.items = items + self.items[position:]

    def adopt_outcome(self, outcome: ToolOutcome) -> ToolOutcome:
        """Returns the outcome of a call with the markers that its result has in this context."""
        result = read_result_details((outcome.fields or {}).get("details"))
        if result is None or (adopted := self.citations.adopt(result)) is result:
            return outcome
        details = build_result_details(adopted.text, adopted.citables)
        return replace(outcome, output=adopted.text, fields={**(outcome.fields or {}), "details": details})

    def _record_sources(self, entries: Iterable[Item | HostedCall]) -> None:
        for entry in entries:
            if isinstance(entry, HostedCall):
                self.sources[entry.call_id] = [entry.final_item]
