"""File searches as a kind of hosted tools: which tools of a request are searches, and what they ask for."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Final

from gateway.retrieval.embedding import Embedder
from gateway.retrieval.search_params import read_filters, read_threshold
from gateway.state.vector_records import VectorStores
from gateway.tools.executors.executor import ToolExecutor
from gateway.tools.executors.kind import ResponseContext, ToolKind, find_unread_keys
from gateway.tools.file_search.executor import FileSearchExecutor, FileSearchOptions
from gateway.tools.file_search.form import FILE_SEARCH, FILE_SEARCH_FORM
from translation.errors import InvalidRequest
from translation.hosted.call_forms import CallForm
from translation.representation.json_types import Json
from translation.representation.loss import Loss

MAX_STORES: Final = 16
_DEFAULT_RESULTS: Final = 20
_MAX_RESULTS: Final = 50
_RANKERS: Final = ("auto", "default-2024-11-15")
_HYBRID: Final = "hybrid_search"
_WEIGHTS: Final = ("embedding_weight", "text_weight")
_KNOWN_KEYS: Final = frozenset({"type", "vector_store_ids", "max_num_results", "filters", "ranking_options"})
_MAX_WEIGHT: Final = 1_000_000
_IDS: Final = "vector_store_ids"


class FileSearchTools:
    """Runs the file searches of requests over the vector stores of their owners, unless their upstream runs them."""

    forms: Mapping[str, CallForm] = {FILE_SEARCH_FORM.item_type: FILE_SEARCH_FORM}

    def __init__(self, stores: VectorStores | None, embedder: Embedder | None = None) -> None:
        """`stores` is None on a server without a store, which does not run this tool."""
        self._stores = stores
        self._embedder = embedder
        self._shared_ids: frozenset[str] = frozenset()
        """The stores that the configuration of the model names: every client may search them."""
        self._names_own_stores = False
        """Whether the request names a store that exists here, so that no upstream gets its searches."""

    def runs_tool(self, tool: Json) -> bool:
        return self._stores is not None and tool.get("type") == FILE_SEARCH

    async def prepare(self, tools: Sequence[Json], added: Sequence[Json], owner: str) -> ToolKind:
        searches = [tool for tool in tools if self.runs_tool(tool)]
        shared = frozenset(each for tool in added if self.runs_tool(tool) for each in tool[_IDS])
        if self._stores is None or not (searches or shared):
            return self
        prepared = copy(self)
        prepared._shared_ids = shared
        named = {each for tool in searches for each in _list_ids(tool)}
        # A request with a search of its own does not get that of the model.
        prepared._names_own_stores = (
            not searches or not named.isdisjoint(shared) or bool(await self._stores.find_known(owner, named))
        )
        return prepared

    def leave_to_upstream(self, hosted_tools: Collection[str]) -> ToolKind:
        if FILE_SEARCH not in hosted_tools or self._names_own_stores:
            return self
        left = copy(self)
        left._stores = None
        return left

    def find_losses(self, tools: Sequence[Json]) -> Iterator[Loss]:
        for position, tool in enumerate(tools):
            if not self.runs_tool(tool):
                continue
            yield from find_unread_keys(tool, position, _KNOWN_KEYS)
            ranking = tool.get("ranking_options")
            weights = ranking.get(_HYBRID) if isinstance(ranking, dict) else None
            if self._embedder is None and weights is not None:
                yield Loss(f"tools[{position}].ranking_options.{_HYBRID}", "ignored")
            elif isinstance(weights, dict):
                yield from find_unread_keys(weights, position, _WEIGHTS, f"ranking_options.{_HYBRID}.")

    def open_executors(self, tools: Sequence[Json], context: ResponseContext) -> list[ToolExecutor]:
        searches = [position for position, tool in enumerate(tools) if self.runs_tool(tool)]
        if self._stores is None or not searches:
            return []
        if len(searches) > 1:
            raise InvalidRequest(
                "a request may have one file search: name the stores of both in one tool",
                param=f"tools[{searches[1]}]",
                code="duplicate_tool",
            )
        param = f"tools[{searches[0]}]"
        options = _read_options(tools[searches[0]], param)
        options = replace(options, shared_ids=self._shared_ids.intersection(options.store_ids))
        return [FileSearchExecutor(self._stores, context.owner, options, context.citations, self._embedder)]


def _list_ids(tool: Json) -> list[str]:
    """Returns the ids in a tool whose shape is not checked yet."""
    ids = tool.get(_IDS)
    return [each for each in ids if isinstance(each, str)] if isinstance(ids, list) else []


def _read_options(tool: Json, param: str) -> FileSearchOptions:
    """Returns what a tool says about its searches. Raises InvalidRequest."""
    ids = tool.get(_IDS)
    if not isinstance(ids, list) or not 1 <= len(ids) <= MAX_STORES or not all(isinstance(each, str) for each in ids):
        raise InvalidRequest(
            f"{_IDS} must be a list of 1 to {MAX_STORES} ids of vector stores", param=f"{param}.{_IDS}"
        )
    limit = tool.get("max_num_results")
    limit = _DEFAULT_RESULTS if limit is None else limit
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= _MAX_RESULTS:
        raise InvalidRequest(
            f"max_num_results must be a whole number from 1 to {_MAX_RESULTS}", param=f"{param}.max_num_results"
        )
    ranking = tool.get("ranking_options")
    weights = (1.0, 1.0)
    if isinstance(ranking, dict):
        if ranking.get(_HYBRID) is not None:
            weights = _read_weights(ranking[_HYBRID], f"{param}.ranking_options.{_HYBRID}")
        ranking = {name: value for name, value in ranking.items() if name != _HYBRID}
    return FileSearchOptions(
        store_ids=tuple(dict.fromkeys(ids)),
        accepts=read_filters(tool.get("filters"), f"{param}.filters"),
        limit=limit,
        threshold=read_threshold(ranking, f"{param}.ranking_options", _RANKERS),
        param=f"{param}.{_IDS}",
        weights=weights,
    )


def _read_weights(value: object, param: str) -> tuple[float, float]:
    """Returns how much meaning and words count. Raises InvalidRequest."""
    weights = []
    for name in _WEIGHTS:
        weight = value.get(name) if isinstance(value, dict) else None
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= _MAX_WEIGHT:
            raise InvalidRequest(f"{name} must be a number from 0 to {_MAX_WEIGHT}", param=f"{param}.{name}")
        weights.append(float(weight))
    if not any(weights):
        raise InvalidRequest("one of the weights must be greater than 0", param=param)
    return weights[0], weights[1]
