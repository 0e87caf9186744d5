"""A cache of catalogues of tools: most requests of a conversation or of an agent have the same tools."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import orjson

from gateway.config.tool_settings import ToolSearchSettings
from gateway.tools.executors.executor import ToolExecutor
from translation.errors import InvalidRequest
from translation.hosted.result_reader import READ_RESULT
from translation.hosted.tool_search.deferred_tools import defer_tools
from translation.hosted.tool_search.search_form import SEARCH_FORM
from translation.hosted.tools import ToolCatalogue
from translation.representation.json_types import Item, Json

_MAX_CATALOGUES: Final = 32
_MAX_CONTENT_BYTES: Final = 256 * 1024
"""Catalogues of longer lists are not cached, so that clients cannot fill the memory."""


class CatalogueCache:
    """The most recently used catalogues, by everything that they are built from. Catalogues never change."""

    def __init__(self, max_tools: int, search: ToolSearchSettings | None = None) -> None:
        """`max_tools`: the most tools of one catalogue that models see at once. `search`: the limits of the others."""
        self._max_tools = max_tools
        self._search = ToolSearchSettings() if search is None else search
        self._entries: dict[tuple[object, ...], _Entry] = {}

    def find(
        self, executors: Sequence[ToolExecutor], listed: Mapping[str, Item], reserved_names: Sequence[str]
    ) -> ToolCatalogue:
        """Returns the catalogue of the tools of these executors in `listed`, which is keyed by their labels.

        `reserved_names` are the names that the tools must not have. Raises InvalidRequest for too many tools.
        """
        definitions = [(listed.get(each.source.label) or {}).get("tools") for each in executors]
        keys = [each.cache_key for each in executors]
        try:
            content = orjson.dumps([[key.rules for key in keys], reserved_names, definitions])
        except orjson.JSONEncodeError:  # nested deeper than can be written
            return self._build(executors, definitions, reserved_names)
        if len(content) > _MAX_CONTENT_BYTES:
            return self._build(executors, definitions, reserved_names)
        objects = [each for key in keys for each in key.objects]
        key = (content, *map(id, objects))
        entry = self._entries.pop(key, None)
        if entry is None:
            entry = _Entry(self._build(executors, definitions, reserved_names), objects)
        self._entries[key] = entry  # the last entry is the most recently used
        while len(self._entries) > _MAX_CATALOGUES:
            self._entries.pop(next(iter(self._entries)), None)
        return entry.catalogue

    def _build(
        self,
        executors: Sequence[ToolExecutor],
        definitions: Sequence[Sequence[Json] | None],
        reserved_names: Sequence[str],
    ) -> ToolCatalogue:
        tools = [
            tool for each, listed in zip(executors, definitions, strict=True) for tool in each.build_tools(listed or ())
        ]
        search = [tool for tool in tools if tool.form is SEARCH_FORM]
        tools = defer_tools([tool for tool in tools if tool.form is not SEARCH_FORM], search, self._search.auto)
        hidden = sum(tool.is_deferred for tool in tools)
        if len(tools) - hidden > self._max_tools:
            raise InvalidRequest(
                f"the MCP servers have {len(tools) - hidden} tools; at most {self._max_tools} are allowed "
                "(tools.mcp.max_tools): send allowed_tools, or `tool_search` with `defer_loading`",
                param="tools",
                code="too_many_tools",
            )
        if hidden > self._search.max_tools:
            raise InvalidRequest(
                f"the request defers {hidden} tools; at most {self._search.max_tools} are allowed "
                "(tools.tool_search.max_tools): send allowed_tools",
                param="tools",
                code="too_many_tools",
            )
        return ToolCatalogue.build(tools, reserved_names, own_tools=[READ_RESULT])


class _Entry(NamedTuple):
    """A catalogue, and the objects whose ids are in its key. The references keep their ids from being reused."""

    catalogue: ToolCatalogue
    objects: Sequence[object]
