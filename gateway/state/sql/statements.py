"""Statements that several modules of the store execute.

The statements that every stored response needs are built once, because SQLAlchemy takes longer to build a statement
than to execute it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import (
    Insert,
    Integer,
    Select,
    SmallInteger,
    Text,
    Update,
    bindparam,
    cast,
    func,
    insert,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state.database.database import Database
from gateway.state.database.tables import completion_metadata, completions, events, items, responses, workers
from gateway.state.values import ACTIVE_STATUSES

RESPONSE_COLUMNS: Final = tuple(column.name for column in responses.columns if column.name != "deleted")
"""The columns of `responses` that an insert sets."""

ITEM_COLUMNS: Final = tuple(items.columns.keys())
COMPLETION_COLUMNS: Final = tuple(completions.columns.keys())

INSERT_RESPONSE: Final = insert(responses)
INSERT_ITEMS: Final = insert(items)
INSERT_COMPLETION: Final = insert(completions)
INSERT_COMPLETION_METADATA: Final = insert(completion_metadata)
INSERT_LOG_ENTRY: Final = insert(events)

_IS_READABLE = (
    responses.c.owner == bindparam("its_owner"),
    responses.c.id == bindparam("its_id"),
    ~responses.c.deleted,
)

_IS_ACTIVE = or_(*(responses.c.status == status for status in ACTIVE_STATUSES))
"""Does not use `in_`, because SQLAlchemy renders its list again for each execution."""

SELECT_WORKER: Final = select(responses.c.worker).where(
    responses.c.owner == bindparam("its_owner"), responses.c.id == bindparam("its_id"), _IS_ACTIVE
)
"""Selects who holds an active response, or no row if it has ended or does not exist."""

LOCK_RESPONSE: Final = select(responses.c.id).where(*_IS_READABLE).with_for_update(read=True)
"""Prevents the deletion of a response until the transaction ends. Selects its id, or no row if it does not exist."""

_UPDATE_TO_ENDED = (
    update(responses)
    .where(*_IS_READABLE, _IS_ACTIVE, responses.c.worker == bindparam("its_worker"))
    .values(
        status=bindparam("ended_status"),
        body=bindparam("ended_body"),
        losses=func.coalesce(bindparam("ended_losses", type_=Text), responses.c.losses),
        upstream=func.coalesce(bindparam("ended_upstream", type_=Text), responses.c.upstream),
        worker=None,
    )
)

FINISH_RESPONSE: Final = _UPDATE_TO_ENDED.returning(
    responses.c.conversation_id, responses.c.background, responses.c.logged
)
"""Ends a response that is active and held by the worker. Returns no row for others."""

FINISH_PLAIN_RESPONSE: Final = _UPDATE_TO_ENDED.where(
    responses.c.conversation_id.is_(None), ~responses.c.background, ~responses.c.logged
)
"""Ends an active response of the worker if nothing else must be written: no conversation, job or event log."""


# On PostgreSQL a plain response is written by one statement, which is a transaction by itself. SQLite has no statement
# that writes two tables.

_NEW_ITEMS = (
    func.unnest(
        cast(bindparam("places"), ARRAY(SmallInteger)),
        cast(bindparam("positions"), ARRAY(Integer)),
        cast(bindparam("item_ids"), ARRAY(Text)),
        cast(bindparam("item_bodies"), ARRAY(Text)),
    )
    .table_valued("place", "position", "id", "body")
    .render_derived(name="new_items")
)


def _count_written(response: Insert | Update) -> Select[int]:
    """Builds the statement that writes a response and inserts its items. It selects how many responses were written."""
    written = response.returning(responses.c.owner, responses.c.id).cte("written")
    rows = select(written.c.owner, written.c.id, *_NEW_ITEMS.c).select_from(written.join(_NEW_ITEMS, true()))
    insert_rows = insert(items).from_select(ITEM_COLUMNS, rows).returning(items.c.position)
    return select(func.count()).select_from(written).add_cte(insert_rows.cte("inserted"))


INSERT_RESPONSE_WITH_ITEMS: Final = _count_written(
    INSERT_RESPONSE.values({name: bindparam(f"new_{name}") for name in RESPONSE_COLUMNS})
)
FINISH_PLAIN_RESPONSE_WITH_ITEMS: Final = _count_written(FINISH_PLAIN_RESPONSE)


def bind_items(item_rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Returns the parameters of these statements for rows of `items`."""
    return {
        "places": [row["place"] for row in item_rows],
        "positions": [row["position"] for row in item_rows],
        "item_ids": [row["id"] for row in item_rows],
        "item_bodies": [row["body"] for row in item_rows],
    }


async def upsert_lease(connection: AsyncConnection, database: Database, worker: str, *, lease_s: float) -> None:
    """Sets the worker's lease to expire `lease_s` seconds from now, by the database's clock."""
    insert = sqlite.insert if database.is_sqlite else postgresql.insert
    alive_until = {"alive_until_us": database.now_us_expression() + int(lease_s * 1_000_000)}
    await connection.execute(
        insert(workers)
        .values(id=worker, **alive_until)
        .on_conflict_do_update(index_elements=[workers.c.id], set_=alive_until)
    )
