"""Stores grants in SQL. They belong to the operator, so they have no owner."""

from typing import Any

from sqlalchemy import Update, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from gateway.state.database.database import Database
from gateway.state.database.tables import mcp_grants
from gateway.state.operator_records import StoredGrant


class SqlGrantStore:
    """Implements `GrantStore` over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load_grant(self, server: str) -> StoredGrant | None:
        query = select(mcp_grants.c.sealed, mcp_grants.c.version).where(mcp_grants.c.id == server)
        async with self._database.read_transaction() as connection:
            row = (await connection.execute(query)).one_or_none()
        return None if row is None else StoredGrant(row.sealed, row.version)

    async def store_grant(self, server: str, sealed: str) -> None:
        insert = sqlite.insert if self._database.is_sqlite else postgresql.insert
        statement = insert(mcp_grants).values(id=server, sealed=sealed, version=1)
        changes = {"sealed": sealed, "version": mcp_grants.c.version + 1, "locked_until_us": None}
        async with self._database.write_transaction() as connection:
            await connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=changes))

    async def lock_grant(self, server: str, version: int, lease_s: float) -> bool:
        now_us = self._database.now_us_expression()
        is_free = or_(mcp_grants.c.locked_until_us.is_(None), mcp_grants.c.locked_until_us < now_us)
        statement = _update_version(server, version).where(is_free)
        return await self._run(statement, locked_until_us=now_us + int(lease_s * 1_000_000))

    async def replace_grant(self, server: str, sealed: str, version: int) -> bool:
        statement = _update_version(server, version)
        return await self._run(statement, sealed=sealed, version=version + 1, locked_until_us=None)

    async def unlock_grant(self, server: str, version: int) -> None:
        await self._run(_update_version(server, version), locked_until_us=None)

    async def _run(self, statement: Update, **values: Any) -> bool:
        async with self._database.write_transaction() as connection:
            return (await connection.execute(statement.values(**values))).rowcount == 1


def _update_version(server: str, version: int) -> Update:
    return update(mcp_grants).where(mcp_grants.c.id == server, mcp_grants.c.version == version)
