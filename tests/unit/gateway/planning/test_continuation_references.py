"""References to stored items are resolved, however a client spells them."""

from collections.abc import Mapping, Sequence

import pytest

from gateway.errors import NotFound
from gateway.planning.continuation import EmptyHistory, continues_stored_state, resolve_continuation
from translation.representation.json_types import Item, Json
from translation.request_facts import RequestFacts

STORED: Item = {"id": "msg_1", "type": "message", "role": "user", "status": "completed", "content": []}

SPELLINGS: dict[str, Json] = {
    "by its type": {"type": "item_reference", "id": "msg_1"},
    "without a type": {"id": "msg_1"},
    "with null as its type": {"type": None, "id": "msg_1"},
}


class OneItem(EmptyHistory):
    """A history that has one stored item."""

    async def load_items(self, owner: str, item_ids: Sequence[str]) -> Mapping[str, Item]:
        return {item_id: STORED for item_id in item_ids if item_id == STORED["id"]}


@pytest.mark.parametrize("reference", SPELLINGS.values(), ids=SPELLINGS)
async def test_a_reference_becomes_the_stored_item(reference: Json) -> None:
    facts = RequestFacts(input_value=[reference])
    assert continues_stored_state(facts)
    continuation = await resolve_continuation(OneItem(), "ada", facts)
    assert continuation.new_items == [STORED]
    assert continuation.has_references


@pytest.mark.parametrize("reference", SPELLINGS.values(), ids=SPELLINGS)
async def test_a_reference_to_nothing_is_refused(reference: Json) -> None:
    with pytest.raises(NotFound) as refusal:
        await resolve_continuation(EmptyHistory(), "ada", RequestFacts(input_value=[reference]))
    assert refusal.value.param == "input[0].id"
