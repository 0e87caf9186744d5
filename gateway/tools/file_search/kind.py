"""File searches as a kind of hosted tools: which tools of a request are searches, and what they ask for."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gateway.retrieval.embedding import Embedder
from gateway.retrieval.search_params import read_filters, read_threshold
from gateway.state.vector_records import VectorStores
from gateway.tools.executors.executor import ToolExecutor
from gateway.tools.executors.kind import ResponseContext, ToolKind, find_only_tool, find_unread_keys
from gateway.tools.file_search.executor import FileSearchExecutor
from gateway.tools.file_search.form import FILE_SEARCH, FILE_SEARCH_FORM
from gateway.tools.file_search.store_searcher import StoreOptions, StoreSearcher
from translation.errors import InvalidRequest
from translation.hosted.call_forms import CallForm
from translation.representation.json_types import Json
from translation.representation.loss import Loss

if TYPE_CHECKING:
    from gateway.tools.file_search.file_searcher import FileSearcher
    from gateway.tools.mapped_tools.mapped_tool import MappedTool

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
    """Runs the file searches of requests, unless their upstream runs them: over the vector stores of their owners, or
    with the tool of an MCP server that stands for such a search.

    Searches that name a vector store of this server are run over it, whoever runs the others.
    """

    forms: Mapping[str, CallForm] = {FILE_SEARCH_FORM.item_type: FILE_SEARCH_FORM}

    def __init__(
        self, stores: VectorStores | None, embedder: Embedder | None = None, mapped_tool: "MappedTool | None" = None
    ) -> None:
        """`stores` is None on a server without a store, which refuses searches of vector stores."""
        self._is_on = True
        self._stores = stores
        self._mapped_tool = mapped_tool
        self._embedder = embedder
        self._shared_ids: frozenset[str] = frozenset()
        """The stores that the configuration of the model names: every client may search them."""
        self._names_own_stores = False
        """Whether the request names a store that exists here, so that no upstream gets its searches."""

    def runs_tool(self, tool: Json) -> bool:
        return self._is_on and tool.get("type") == FILE_SEARCH

    async def prepare(self, tools: Sequence[Json], added: Sequence[Json], owner: str) -> ToolKind:
        searches = [tool for tool in tools if self.runs_tool(tool)]
        shared = frozenset(each for tool in added if self.runs_tool(tool) for each in tool[_IDS])
        if self._stores is None or not (searches or shared):
            return self
        prepared = copy(self)
        prepared._shared_ids = shared
        named = {each for tool in searches for each in _list_ids(tool)}
        own: Collection[str] = shared
        if shared and self._mapped_tool is not None:
            own = await self._stores.find_owners(shared)  # the others are known to the tool
        # A request with a search of its own does not get that of the model.
        prepared._names_own_stores = bool(own) and (not searches or not named.isdisjoint(own))
        if searches and not prepared._names_own_stores:
            prepared._names_own_stores = bool(await self._stores.find_known(owner, named))
        return prepared

    def restrict_to_key(self, allowed_servers: Sequence[str]) -> ToolKind:
        if self._mapped_tool is None or self._mapped_tool.is_allowed(allowed_servers):
            return self
        restricted = copy(self)
        restricted._mapped_tool = None
        return restricted

    def leave_to_upstream(self, hosted_tools: Collection[str]) -> ToolKind:
        if FILE_SEARCH not in hosted_tools or self._names_own_stores:
            return self
        left = copy(self)
        left._is_on = False
        return left

    def find_losses(self, tools: Sequence[Json]) -> Iterator[Loss]:
        for position, tool in enumerate(tools):
            if not self.runs_tool(tool):
                continue
            yield from find_unread_keys(tool, position, _KNOWN_KEYS)
            ranking = tool.get("ranking_options")
            weights = ranking.get(_HYBRID) if isinstance(ranking, dict) else None
            mapped_tool = self._find_mapped_tool()
            if mapped_tool is not None:
                yield from _find_mapping_losses(tool, position, mapped_tool)
            if (self._embedder is None or mapped_tool is not None) and weights is not None:
                yield Loss(f"tools[{position}].ranking_options.{_HYBRID}", "ignored")
            elif isinstance(weights, dict):
                yield from find_unread_keys(weights, position, _WEIGHTS, f"ranking_options.{_HYBRID}.")

    def open_executors(self, tools: Sequence[Json], context: ResponseContext) -> list[ToolExecutor]:
        position = find_only_tool(
            tools, self.runs_tool, "a request may have one file search: name the stores of both in one tool"
        )
        if position is None:
            return []
        tool, param = tools[position], f"tools[{position}]"
        mapped_tool = self._find_mapped_tool()
        options, threshold = _read_options(tool, param, needs_stores=mapped_tool is None)
        searcher: FileSearcher
        if mapped_tool is not None:
            searcher = _build_mapped_searcher(mapped_tool, tool, options, param)
        elif self._stores is not None:
            options = replace(options, shared_ids=self._shared_ids.intersection(options.store_ids))
            searcher = StoreSearcher(self._stores, context.owner, options, self._embedder)
        else:
            raise InvalidRequest(
                "a file search needs a store, and the server's config has no store.url: leave the tool out",
                param=param,
                code="unsupported_parameter",
            )
        return [FileSearchExecutor(searcher, context.citations, options.limit, threshold)]

    def _find_mapped_tool(self) -> "MappedTool | None":
        """Returns the tool that runs the search of the request; None if it is a search of vector stores."""
        return None if self._names_own_stores else self._mapped_tool


def _find_mapping_losses(tool: Json, position: int, mapped_tool: "MappedTool") -> Iterator[Loss]:
    """Yields what a mapped tool cannot honour of a search."""
    if tool.get(_IDS) and not mapped_tool.takes(_IDS):
        yield Loss(f"tools[{position}].{_IDS}", "dropped")
    ranking = tool.get("ranking_options")
    has_threshold = isinstance(ranking, dict) and ranking.get("score_threshold")
    if has_threshold and mapped_tool.settings.result.score is None:
        yield Loss(f"tools[{position}].ranking_options.score_threshold", "ignored")


def _build_mapped_searcher(mapped_tool: "MappedTool", tool: Json, options: StoreOptions, param: str) -> "FileSearcher":
    """Returns the search by a tool of an MCP server. Raises InvalidRequest for a filter that it would not get: it would
    find what it must not."""
    from gateway.tools.file_search.mapped_searcher import MappedSearcher

    filters = tool.get("filters")
    if filters is not None and not mapped_tool.takes("filters"):
        raise InvalidRequest(
            "file searches are run by a tool of an MCP server here, which takes no filters: leave them out",
            param=f"{param}.filters",
            code="unsupported_parameter",
        )
    values = {"results": options.limit, _IDS: [*options.store_ids] or None, "filters": filters}
    return MappedSearcher(mapped_tool, values, options.limit)


def _list_ids(tool: Json) -> list[str]:
    """Returns the ids in a tool whose shape is not checked yet."""
    ids = tool.get(_IDS)
    return [each for each in ids if isinstance(each, str)] if isinstance(ids, list) else []


def _read_options(tool: Json, param: str, *, needs_stores: bool) -> tuple[StoreOptions, float]:
    """Returns what a tool says about its searches, and the lowest score of a result. Raises InvalidRequest."""
    ids = tool.get(_IDS)
    least = 1 if needs_stores else 0
    if (
        not isinstance(ids, list)
        or not all(isinstance(each, str) for each in ids)
        or not least <= len(ids) <= MAX_STORES
    ):
        raise InvalidRequest(
            f"{_IDS} must be a list of {least} to {MAX_STORES} ids of vector stores", param=f"{param}.{_IDS}"
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
    options = StoreOptions(
        store_ids=tuple(dict.fromkeys(ids)),
        accepts=read_filters(tool.get("filters"), f"{param}.filters"),
        limit=limit,
        param=f"{param}.{_IDS}",
        weights=weights,
    )
    return options, read_threshold(ranking, f"{param}.ranking_options", _RANKERS)


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
