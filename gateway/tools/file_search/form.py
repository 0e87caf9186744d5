"""The items by which clients see file searches: `file_search_call`."""

from typing import Final

import orjson

from translation.hosted.call_forms import CallForm, CallView, PastHostedCall
from translation.hosted.citations.citables import Citable, CitableFile
from translation.hosted.citations.citation_table import read_result_details, remove_markers, write_marker
from translation.hosted.outcomes import ToolOutcome
from translation.representation.json_types import Item, Json, mapping_or_empty

FILE_SEARCH: Final = "file_search"

_UNKNOWN: Final = "A search took place. Its results are no longer known: search again if you need them."
_MAX_RESULTS: Final = 50


class FileSearchForm(CallForm):
    """Items of the type `file_search_call`. Their queries and results are known at the end of the call."""

    item_type = "file_search_call"
    id_prefix = "fs"
    run_phases = ("searching",)

    def build_fields(self, call: CallView) -> Json:
        return {"queries": [], "results": None} if call.outcome.fields is None else {**call.outcome.fields}

    def count_results(self, outcome: ToolOutcome) -> int:
        return len((outcome.fields or {}).get("results") or ())

    def read_past(self, item: Item) -> PastHostedCall:
        queries = [query for query in item.get("queries") or () if isinstance(query, str)]
        arguments = orjson.dumps({"queries": queries}).decode()
        result = read_result_details(item.get("details"))
        if result is not None:
            return PastHostedCall(FILE_SEARCH, FILE_SEARCH, arguments, result.text, result.citables)
        if item.get("status") == "failed":
            return PastHostedCall(FILE_SEARCH, FILE_SEARCH, arguments, "This call failed.")
        citables: dict[int, Citable] = {}
        lines = []
        results = item.get("results")
        entries = map(mapping_or_empty, results if isinstance(results, list) else ())
        for number, entry in enumerate([*entries][:_MAX_RESULTS], 1):
            file = CitableFile(str(entry.get("file_id") or ""), remove_markers(str(entry.get("filename") or "")))
            citables[number] = file
            lines.append(f"{write_marker(number)} {file.filename}\n{remove_markers(str(entry.get('text') or ''))}")
        return PastHostedCall(FILE_SEARCH, FILE_SEARCH, arguments, "\n\n".join(lines) or _UNKNOWN, citables)


FILE_SEARCH_FORM: Final = FileSearchForm()
