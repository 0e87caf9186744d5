"""Items that are added to a conversation may refer to stored ones, however a client spells it."""

from pathlib import Path

import pytest

from gateway.config.settings import parse_settings
from gateway.dialects.responses.conversations import create_conversation, extend_conversation
from gateway.errors import NotFound
from gateway.state.sql.store import SqlStore
from tests.databases import ready_sqlite
from translation.representation.json_types import Json

MESSAGE: Json = {"type": "message", "id": "msg_1", "role": "user", "content": "Hi"}

SPELLINGS: dict[str, Json] = {
    "by its type": {"type": "item_reference"},
    "without a type": {},
    "with null as its type": {"type": None},
}


@pytest.mark.parametrize("kind", SPELLINGS.values(), ids=SPELLINGS)
async def test_a_reference_becomes_a_copy_of_the_item(kind: Json, tmp_path: Path) -> None:
    settings = parse_settings({"store": {"url": ready_sqlite(tmp_path / "state.db")}}, environ={})
    store = SqlStore(settings.store, settings.background)
    await store.open()
    try:
        await create_conversation(store, "ada", {"items": [MESSAGE]}, lambda: 7)
        other = await create_conversation(store, "ada", {}, lambda: 7)
        added = await extend_conversation(store, "ada", other["id"], {"items": [{**kind, "id": "msg_1"}]})
        assert added is not None
        assert added[0]["content"] == [{"type": "input_text", "text": "Hi"}]
        with pytest.raises(NotFound) as refusal:
            await extend_conversation(store, "ada", other["id"], {"items": [{**kind, "id": "msg_2"}]})
        assert refusal.value.param == "items[0].id"
    finally:
        await store.aclose()
