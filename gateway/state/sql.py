"""The store over one database: its parts, and their connection."""

from gateway.settings import Background, Store
from gateway.state.database import Database
from gateway.state.sql_responses import SqlResponses
from gateway.state.tables import metadata


class SqlStore(SqlResponses):
    """All parts over one `Database`. Raises nothing before `open`."""

    def __init__(self, settings: Store, background: Background) -> None:
        if settings.url is None:
            raise ValueError("there is no store without store.url")
        self._database = Database(settings.url, deadline_s=settings.deadline_s)
        self._background = background
        SqlResponses.__init__(self, self._database)

    async def open(self) -> None:
        """Connect and check the schema."""
        if self._database.is_sqlite:
            async with self._database.write() as connection:
                await connection.run_sync(metadata.create_all)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._database.aclose()

    @property
    def degraded(self) -> str | None:
        return self._database.degraded
