"""Stores in SQL the MCP servers that were added over the API. They belong to the operator, so they have no owner."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from gateway.state.database.database import Database
from gateway.state.database.tables import mcp_servers
from gateway.state.operator_records import AddResult, StoredServer

_LOCK: Final = "mcp_servers"


class SqlAddedServerStore:
    """Implements `AddedServerStore` over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load_added_servers(self) -> Sequence[StoredServer]:
        columns = mcp_servers.c
        query = select(columns.id, columns.prefix, columns.settings, columns.sealed, columns.added_by)
        async with self._database.read_transaction() as connection:
            rows = await connection.execute(query.order_by(columns.id))
            return [StoredServer(*row) for row in rows]

    async def store_added_server(self, server: StoredServer, max_servers: int) -> AddResult:
        try:
            return await self._try_store(server, max_servers)
        except IntegrityError:  # a replica of an older version, which takes no lock, was faster
            return await self._try_store(server, max_servers)

    async def _try_store(self, server: StoredServer, max_servers: int) -> AddResult:
        values = {**server._asdict(), "changed_us": self._database.now_us_expression()}
        label = values.pop("label")
        async with self._database.write_transaction() as connection:
            # The transaction must see the servers that other replicas add, to count them.
            await self._database.acquire_advisory_lock(connection, _LOCK)
            rows = await connection.execute(select(mcp_servers.c.id, mcp_servers.c.prefix))
            prefixes = {row.id: row.prefix for row in rows if row.id != label}
            if server.prefix is not None and server.prefix in prefixes.values():
                return "prefix_taken"
            if len(prefixes) >= max_servers:
                return "too_many"
            changed = await connection.execute(update(mcp_servers).where(mcp_servers.c.id == label).values(values))
            if changed.rowcount:
                return "replaced"
            await connection.execute(insert(mcp_servers).values(id=label, **values))
            return "added"

    async def replace_added_server(self, old: StoredServer, new: StoredServer) -> bool:
        columns = mcp_servers.c
        is_unchanged = (columns.id == old.label) & (columns.settings == old.settings)
        values = {"settings": new.settings, "sealed": new.sealed, "changed_us": self._database.now_us_expression()}
        async with self._database.write_transaction() as connection:
            changed = await connection.execute(update(mcp_servers).where(is_unchanged).values(values))
            return changed.rowcount == 1

    async def delete_added_server(self, label: str) -> bool:
        async with self._database.write_transaction() as connection:
            return (await connection.execute(delete(mcp_servers).where(mcp_servers.c.id == label))).rowcount == 1
