"""Creates conversations and adds items to them, over the store."""

from collections.abc import Callable, Sequence

from gateway.errors import NotFound
from gateway.state.store import Store
from providers.new_id import new_id
from translation.errors import InvalidRequest
from translation.representation.json_types import Item, Json
from translation.responses.client.storable_items import to_storable_items
from translation.responses.input_items import is_reference
from translation.responses.schema.conversations import validate_add_items, validate_create
from translation.tools.credentials import remove_item_credentials


async def create_conversation(store: Store, owner: str, body: Json, clock: Callable[[], int]) -> Json:
    """Creates and returns a conversation with the items and metadata of `body`. `clock` returns epoch seconds.

    Raises InvalidRequest, NotFound for a reference to an unknown item, and StoreUnavailable.
    """
    validate_create(body)
    items = await _resolve_items(store, owner, body.get("items") or ())
    conversation = {
        "id": new_id("conv"),
        "object": "conversation",
        "created_at": clock(),
        "metadata": body.get("metadata") or {},
    }
    await store.conversations.create_conversation(owner, conversation, items)
    return conversation


async def extend_conversation(store: Store, owner: str, conversation_id: str, body: Json) -> Sequence[Item] | None:
    """Appends the items of `body` and returns them as stored; None if the conversation does not exist.

    Raises InvalidRequest, NotFound for a reference to an unknown item, and StoreUnavailable.
    """
    validate_add_items(body)
    if await store.conversations.load_conversation(owner, conversation_id) is None:
        return None
    items = await _resolve_items(store, owner, body["items"])
    for index, item in enumerate(items):
        if await store.conversations.load_conversation_item(owner, conversation_id, item["id"]) is not None:
            raise InvalidRequest(
                f"Invalid value for 'items[{index}].id': the conversation has an item '{item['id']:.80}' already.",
                param=f"items[{index}].id",
            )
    return items if await store.conversations.add_conversation_items(owner, conversation_id, items) else None


async def _resolve_items(store: Store, owner: str, input_items: Sequence[Json]) -> list[Item]:
    """Returns the items in full form, each with an id of its own. References are replaced by the items they name."""
    referenced_ids = [item["id"] for item in input_items if is_reference(item)]
    referenced = await store.history.load_items(owner, referenced_ids) if referenced_ids else {}
    for index, item in enumerate(input_items):
        if is_reference(item) and item["id"] not in referenced:
            raise NotFound(f"Item with id '{item['id']:.80}' not found.", param=f"items[{index}].id")
    items: list[Item] = remove_item_credentials(
        to_storable_items([referenced[item["id"]] if is_reference(item) else item for item in input_items], new_id)
    )
    seen_ids: set[str] = set()
    for index, item in enumerate(items):
        if item["id"] in seen_ids:
            raise InvalidRequest(
                f"Invalid value for 'items[{index}].id': '{item['id']:.80}' is used twice.", param=f"items[{index}].id"
            )
        seen_ids.add(item["id"])
    return items
