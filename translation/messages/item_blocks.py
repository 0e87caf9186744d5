"""One item of a reply while it is encoded as content blocks."""

from translation.representation.collector import ItemState
from translation.representation.json_types import Item


class ItemBlocks:
    """An item that has begun, with the indexes of its blocks: by part, or under None if the item is one block."""

    __slots__ = ("blocks", "state", "stopped")

    def __init__(self, item: Item) -> None:
        self.state = ItemState(item)
        self.blocks: dict[int | None, int] = {}
        self.stopped: set[int | None] = set()
        """The keys of blocks that have ended."""
