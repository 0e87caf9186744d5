"""What seals items of replies on their way out."""

from typing import Protocol

from translation.json_types import Item


class ItemSeal(Protocol):
    """Items as a client is told them: what only their upstream can use is sealed. Gives the item itself where there is
    nothing to seal in it."""

    def concerns(self, payload: bytes, /) -> bool:
        """Whether an event of a Responses upstream may hold an item with something to seal."""
        ...

    def begun(self, item: Item, /) -> Item:
        """An item that is announced."""
        ...

    def ended(self, item: Item, /) -> Item:
        """An item that is complete."""
        ...
