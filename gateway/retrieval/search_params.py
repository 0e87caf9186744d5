"""Parameters that searches have in common: queries of calls, filters, and ranking options."""

from collections.abc import Collection
from typing import Any

from gateway.retrieval.attribute_filters import AttributeFilter, FilterFault, compile_filter
from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.validation import refuse_unknown_names


def read_queries(arguments: Json) -> list[str]:
    """Returns the queries of a call's arguments. Models also write one as `query`, or as a text."""
    queries = arguments.get("queries") or arguments.get("query")
    listed: list[Any] = [queries] if isinstance(queries, str) else queries if isinstance(queries, list) else []
    return [query.strip() for query in listed if isinstance(query, str) and query.strip()]


def read_filters(value: object, param: str) -> AttributeFilter | None:
    """Returns the function of a filter; None without one."""
    if value is None:
        return None
    try:
        return compile_filter(value)
    except FilterFault as fault:
        raise InvalidRequest(f"Invalid value for '{param}': {fault.message}.", param=param + fault.path) from None


def read_threshold(value: object, param: str, rankers: Collection[str]) -> float:
    """Returns the lowest score that ranking options ask for."""
    if value is None:
        return 0.0
    if not isinstance(value, dict):
        raise InvalidRequest(f"Invalid value for '{param}': expected an object.", param=param)
    refuse_unknown_names(value, ("ranker", "score_threshold"), f"{param}.")
    ranker = value.get("ranker")
    if ranker is not None and ranker not in rankers:
        raise InvalidRequest(
            f"Invalid value for '{param}.ranker': expected one of {', '.join(rankers)}.", param=f"{param}.ranker"
        )
    threshold = value.get("score_threshold", 0)
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
        raise InvalidRequest(
            f"Invalid value for '{param}.score_threshold': expected a number from 0 to 1.",
            param=f"{param}.score_threshold",
        )
    return threshold
