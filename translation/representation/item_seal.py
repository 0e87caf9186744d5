"""The interface by which encoders of client dialects seal items."""

from typing import Protocol

from translation.representation.json_types import Item


class ItemSeal(Protocol):
    """Seals data of items for their upstream, before the items are sent to the client.

    The methods return the same object if there is nothing to seal.
    """

    def may_need_seal(self, payload: bytes, /) -> bool:
        """Returns whether the JSON of an event of a Responses upstream may contain an item that has to be sealed."""
        ...

    def seal_added_item(self, item: Item, /) -> Item:
        """Returns an item as the client gets it when it is added."""
        ...

    def seal_done_item(self, item: Item, /) -> Item:
        """Returns an item as the client gets it when it is complete."""
        ...


def seal_item(item: Item, seal: ItemSeal | None) -> str:
    """Returns the sealed data that the client has to send back with a complete item; empty if there is none."""
    sealed = "" if seal is None else seal.seal_done_item(item).get("encrypted_content")
    return sealed if isinstance(sealed, str) else ""
