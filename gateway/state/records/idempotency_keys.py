"""Stores idempotency keys in SQL."""

from collections.abc import Sequence

from sqlalchemy import delete, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state.database.database import Database
from gateway.state.database.tables import idempotency_keys
from gateway.state.idempotency import KeyedRequest, KeyTaken, StoredKey
from gateway.state.row_values import is_valid_id, read_clock_us


class SqlKeyStore:
    """Implements `KeyStore` over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load_key(self, owner: str, key: str) -> StoredKey | None:
        if not is_valid_id(key):
            return None
        query = select(idempotency_keys).where(idempotency_keys.c.owner == owner, idempotency_keys.c.id == key)
        async with self._database.read_transaction(owner) as connection:
            row = (await connection.execute(query)).one_or_none()
        if row is None:
            return None
        return StoredKey(digest=row.digest, response_id=row.response_id, created_at=row.created_us / 1e6)

    async def count_keys(self, owner: str, limit: int) -> int:
        keys = select(idempotency_keys.c.id).where(idempotency_keys.c.owner == owner).limit(limit).subquery()
        async with self._database.read_transaction(owner) as connection:
            return (await connection.execute(select(func.count()).select_from(keys))).scalar_one()


async def claim_key(
    connection: AsyncConnection, owner: str, request: KeyedRequest, response_id: str, *, is_sqlite: bool
) -> None:
    """Stores the key of a request whose response begins, within its transaction. Raises KeyTaken.

    It is one conditional insert: of several requests with one key, on any replicas, exactly one begins.
    """
    values = {"created_us": read_clock_us(), "digest": request.digest, "response_id": response_id}
    statement = (sqlite.insert if is_sqlite else postgresql.insert)(idempotency_keys).values(
        owner=owner, id=request.key, **values
    )
    if request.replaces is None:
        statement = statement.on_conflict_do_nothing()
    else:
        statement = statement.on_conflict_do_update(
            index_elements=["owner", "id"], set_=values, where=idempotency_keys.c.response_id == request.replaces
        )
    if (await connection.execute(statement.returning(idempotency_keys.c.id))).one_or_none() is None:
        raise KeyTaken(request.key)


async def delete_keys(connection: AsyncConnection, keys: Sequence[tuple[str, str]]) -> int:
    """Deletes the rows with these keys (owner, id), within a transaction. Returns the number of keys."""
    for owner, key in keys:
        await connection.execute(
            delete(idempotency_keys).where(idempotency_keys.c.owner == owner, idempotency_keys.c.id == key)
        )
    return len(keys)
