"""The interface for compacting the context of a response with hosted tools, between its rounds."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from translation.hosted.compaction import HostedContextParts
from translation.representation.events import Usage
from translation.representation.json_types import Item
from translation.representation.turn import Turn


class CompactedContext(NamedTuple):
    """A context with a summary in place of its older items.

    `item` is the compaction item for the client, `items` is the context of the model from now on, and `usage` is the
    usage of writing the summary.
    """

    item: Item
    items: Sequence[Item]
    usage: Usage | None


class ContextCompactor(Protocol):
    """Compacts the contexts of one response."""

    async def compact(self, turn: Turn, parts: HostedContextParts, last_usage: Usage | None) -> CompactedContext | None:
        """Returns the compacted context of the turn of the next round; None if no compaction is due.

        `parts` is its context, split. `last_usage` is the usage of the round before; None in the first round, and if
        the upstream reports none. Raises CompactionFailed, TurnFailed and ProviderError.
        """
        ...
