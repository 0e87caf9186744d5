"""Web searches as a kind of hosted tools: which tools of a request are searches, and what they ask for."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Final

from gateway.config.tool_settings import WebSearchSettings
from gateway.retrieval.parsing.parsed_text import ParsingBounds
from gateway.tools.executors.executor import ToolExecutor
from gateway.tools.executors.kind import ResponseContext, ToolKind, find_only_tool, find_unread_keys
from gateway.tools.web_search.domains import read_domain_rules
from gateway.tools.web_search.form import FORM
from providers.egress import EgressClient
from translation.errors import InvalidRequest
from translation.hosted.call_forms import CallForm
from translation.representation.json_types import Json, mapping_or_empty
from translation.representation.loss import Loss
from translation.tools.searches import WEB_SEARCH, is_search_tool

if TYPE_CHECKING:
    from gateway.tools.mapped_tools.mapped_tool import MappedTool
    from gateway.tools.web_search.engines import SearchBackend

_SIZES: Final = {"low": (5, 500), "medium": (8, 1000), "high": (12, 2000)}
"""`search_context_size` -> the maximum number of results, and of characters of each."""

_DEFAULT_SIZE: Final = "medium"

_ACCESS: Final = "external_web_access"
_KNOWN_KEYS: Final = frozenset({"type", "filters", "search_context_size", "user_location", "max_uses", _ACCESS, "name"})
_COUNTRY: Final = "country"
_PLACE_KEYS: Final = ("city", "region", "timezone", _COUNTRY)
_PLACE_FIELDS: Final = frozenset({"type", *_PLACE_KEYS})


class WebSearchTools:
    """Runs the web searches of requests with the engine of the configuration, or with the tool of an MCP server that
    stands for one, unless their upstream runs them."""

    forms: Mapping[str, CallForm] = {FORM.item_type: FORM}

    def __init__(
        self,
        settings: WebSearchSettings,
        egress: EgressClient,
        bounds: ParsingBounds,
        mapped_tool: "MappedTool | None" = None,
    ) -> None:
        """`bounds` hold for the PDFs among the pages. `mapped_tool` is the tool that stands for an engine."""
        self._settings: Final = settings
        self._bounds: Final = bounds
        self._egress: Final = egress
        self._mapped_tool: Final = mapped_tool
        self._is_on = settings.engine is not None or mapped_tool is not None

    def runs_tool(self, tool: Json) -> bool:
        """Whether the gateway runs this tool. A client may ask for a search without access to the web, which no engine
        offers."""
        return self._is_on and is_search_tool(tool) and tool.get(_ACCESS) is not False

    async def prepare(self, tools: Sequence[Json], added: Sequence[Json], owner: str) -> ToolKind:
        return self

    def restrict_to_key(self, allowed_servers: Sequence[str]) -> ToolKind:
        if self._mapped_tool is None or self._mapped_tool.is_allowed(allowed_servers):
            return self
        return self._turn_off()

    def leave_to_upstream(self, hosted_tools: Collection[str]) -> ToolKind:
        return self._turn_off() if any(each.startswith(WEB_SEARCH) for each in hosted_tools) else self

    def find_losses(self, tools: Sequence[Json]) -> Iterator[Loss]:
        for position, tool in enumerate(tools):
            if not self.runs_tool(tool):
                continue
            place = mapping_or_empty(tool.get("user_location"))
            for key in _PLACE_KEYS:
                if place.get(key) and not (key == _COUNTRY and self._build_engine().finds_country(place[key])):
                    yield Loss(f"tools[{position}].user_location.{key}", "dropped")
            yield from find_unread_keys(place, position, _PLACE_FIELDS, "user_location.")
            yield from find_unread_keys(tool, position, _KNOWN_KEYS)

    def open_executors(self, tools: Sequence[Json], context: ResponseContext) -> list[ToolExecutor]:
        from gateway.tools.web_search.executor import SearchOptions, WebSearchExecutor
        from gateway.tools.web_search.page_text import WebPageReader
        from gateway.tools.web_search.shape import TextBounds
        from gateway.tools.web_search.shapes import build_shape

        position = find_only_tool(tools, self.runs_tool, "a request may have one web search: join the two tools to one")
        if position is None:
            return []
        tool, param = tools[position], f"tools[{position}]"
        results, excerpt_chars = _read_size(tool, param)
        engine = self._build_engine()
        country = _read_country(tool, param)
        _require_access(tool, param)
        options = SearchOptions(
            rules=read_domain_rules(tool, param),
            results=results,
            country=country.upper() if engine.finds_country(country) else "",
            max_uses=_read_max_uses(tool, param),
            opens_pages=self._settings.pages and self._mapped_tool is None,
        )
        reader = WebPageReader(self._bounds)
        bounds = TextBounds(excerpt_chars, self._settings.page_chars)
        shape = build_shape(context.trained_tools, context.citations, bounds)
        return [WebSearchExecutor(self._settings, engine, self._egress, options, shape, reader)]

    def _build_engine(self) -> "SearchBackend":
        if self._mapped_tool is not None:
            from gateway.tools.web_search.mapped_engine import MappedEngine

            return MappedEngine(self._mapped_tool)
        from gateway.tools.web_search.engine_client import EngineClient

        return EngineClient(self._settings)

    def _turn_off(self) -> "WebSearchTools":
        turned_off = copy(self)
        turned_off._is_on = False
        return turned_off


def _read_size(tool: Json, param: str) -> tuple[int, int]:
    """Returns the maximum number of results, and of characters of each. Raises InvalidRequest for an unknown size."""
    size = tool.get("search_context_size")
    if size is None:
        size = _DEFAULT_SIZE
    if not isinstance(size, str) or size not in _SIZES:
        message = f"search_context_size must be one of {', '.join(_SIZES)}"
        raise InvalidRequest(message, param=f"{param}.search_context_size")
    return _SIZES[size]


def _require_access(tool: Json, param: str) -> None:
    """Raises InvalidRequest if the tool says in another way than by a boolean whether it may access the web: a search
    that was meant to be none would be run."""
    if not isinstance(tool.get(_ACCESS), bool | None):
        message = f"{_ACCESS} must be true or false"
        raise InvalidRequest(message, param=f"{param}.{_ACCESS}", code="invalid_type")


def _read_max_uses(tool: Json, param: str) -> int | None:
    """Returns the most searches of the response; None without a limit. Raises InvalidRequest for what is no limit."""
    limit = tool.get("max_uses")
    if limit is None:
        return None
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        message = "max_uses must be a whole number of at least 1: leave it out for no limit"
        raise InvalidRequest(message, param=f"{param}.max_uses", code="invalid_type")
    return limit


def _read_country(tool: Json, param: str) -> str:
    """Returns the country of the user; empty if none is given. Raises InvalidRequest for values that are no texts."""
    place = tool.get("user_location")
    if place is not None and not isinstance(place, dict):
        raise InvalidRequest("user_location must be an object", param=f"{param}.user_location", code="invalid_type")
    for key in _PLACE_KEYS:
        if not isinstance((place or {}).get(key), str | None):
            raise InvalidRequest(f"{key} must be a text", param=f"{param}.user_location.{key}", code="invalid_type")
    return (place or {}).get(_COUNTRY) or ""
