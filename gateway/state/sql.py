"""The store over one database: its parts, and their connection."""

from gateway.settings import Background, Store
from gateway.state.database import Database
from gateway.state.events import SqlEvents
from gateway.state.signals import JOBS, Signals
from gateway.state.sql_jobs import SqlJobs
from gateway.state.sql_responses import SqlResponses
from gateway.state.store import LogEntry, NewResponse, StoredResponse
from gateway.state.tables import metadata
from translation.json_types import Json


class SqlStore(SqlResponses, SqlEvents, SqlJobs):
    """All parts over one `Database`. Raises nothing before `open`."""

    def __init__(self, settings: Store, background: Background) -> None:
        if settings.url is None:
            raise ValueError("there is no store without store.url")
        self._database = Database(settings.url, deadline_s=settings.deadline_s)
        self._background = background
        self._signals = Signals(self._database, poll_s=settings.poll_s)
        SqlResponses.__init__(self, self._database)
        SqlEvents.__init__(self, self._database, self._signals)
        SqlJobs.__init__(self, self._database, self._signals, lease_s=background.lease_s)

    async def open(self) -> None:
        """Connect and check the schema."""
        if self._database.is_sqlite:
            async with self._database.write() as connection:
                await connection.run_sync(metadata.create_all)

    async def aclose(self) -> None:
        """Close every connection."""
        await self.stop_writing()
        await self._signals.aclose()
        await self._database.aclose()

    @property
    def degraded(self) -> str | None:
        return self._database.degraded

    async def begin(self, new: NewResponse) -> None:
        await super().begin(new)
        if new.job is not None and new.worker is None:
            self._signals.tell(JOBS)

    async def finish(self, owner: str, response: Json, *, worker: str, last: LogEntry | None = None) -> None:
        await super().finish(owner, response, worker=worker, last=last)
        if last is not None:
            self._signals.tell(response["id"])

    async def cancel(self, owner: str, response_id: str) -> StoredResponse | None:
        cancelled = await super().cancel(owner, response_id)
        self._signals.tell(response_id, JOBS)
        return cancelled

    async def delete(self, owner: str, response_id: str) -> bool:
        deleted = await super().delete(owner, response_id)
        if deleted:
            self._signals.tell(response_id, JOBS)
        return deleted
