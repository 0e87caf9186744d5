"""A cache of catalogues of tools: most requests of a conversation or of an agent have the same tools."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from gateway.tools.requested_servers import RequestedServer
from translation.hosted.tools import ToolCatalogue
from translation.representation.json_types import Item

_MAX_CATALOGUES: Final = 32
_MAX_CONTENT_BYTES: Final = 256 * 1024
"""Catalogues of longer lists are not cached, so that clients cannot fill the memory."""


class CatalogueCache:
    """The most recently used catalogues, by everything that they are built from. Catalogues never change."""

    def __init__(self) -> None:
        self._entries: dict[tuple[object, ...], _Entry] = {}

    def find(
        self,
        servers: Sequence[RequestedServer],
        listed: Mapping[str, Item],
        reserved_names: Sequence[str],
        build: Callable[[], ToolCatalogue],
    ) -> ToolCatalogue:
        """Returns the catalogue of the tools of these servers in `listed`. `build` makes it if it is not cached.

        `reserved_names` are the names that the tools must not have. Raises what `build` raises.
        """
        rules = [each.rules for each in servers]
        tools = [listed[each.label]["tools"] if each.label in listed else None for each in servers]
        try:
            content = orjson.dumps([rules, reserved_names, tools])
        except orjson.JSONEncodeError:  # nested deeper than can be written
            return build()
        if len(content) > _MAX_CONTENT_BYTES:
            return build()
        # The properties of tools of an operator's server also depend on its current list.
        sources = [(each.operator, each.operator.listing) for each in servers if each.operator is not None]
        key = (content, *(id(source) for pair in sources for source in pair))
        entry = self._entries.pop(key, None) or _Entry(build(), sources)
        self._entries[key] = entry  # the last entry is the most recently used
        while len(self._entries) > _MAX_CATALOGUES:
            self._entries.pop(next(iter(self._entries)), None)
        return entry.catalogue


class _Entry(NamedTuple):
    """A catalogue, and the objects whose ids are in its key. The references keep their ids from being reused."""

    catalogue: ToolCatalogue
    sources: Sequence[tuple[Any, Any]]
