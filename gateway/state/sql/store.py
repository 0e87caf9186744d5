"""The complete store over one database. Builds its parts and the connections and signals that they share."""

from collections.abc import Mapping
from contextlib import suppress
from secrets import token_bytes
from typing import Final

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.errors import StoreUnavailable
from gateway.histograms import Histogram
from gateway.state.database.change_notifier import ChangeNotifier
from gateway.state.database.database import Database
from gateway.state.database.migrate import (
    MIGRATION_DEADLINE_S,
    migrate_in_transaction,
    require_current_schema,
)
from gateway.state.database.sqlite_file import ProcessLock, create_database_file, sqlite_path_of
from gateway.state.database.tables import sealing_keys
from gateway.state.database.vector_table import require_vector_table
from gateway.state.records.added_servers import SqlAddedServerStore
from gateway.state.records.approvals import SqlApprovalStore
from gateway.state.records.files import FileDeleter, SqlFileStore
from gateway.state.records.grants import SqlGrantStore
from gateway.state.records.idempotency_keys import SqlKeyStore
from gateway.state.records.open_calls import SqlOpenCallStore, settle_abandoned_calls
from gateway.state.records.prompts import SqlPromptStore
from gateway.state.records.uploads import SqlUploadStore
from gateway.state.sql.call_journal import SqlCallJournal
from gateway.state.sql.completions import SqlCompletionStore
from gateway.state.sql.conversations import SqlConversationStore
from gateway.state.sql.event_log import SqlEventLog
from gateway.state.sql.history import HistoryLimits, SqlHistoryReader
from gateway.state.sql.jobs import SqlJobQueue
from gateway.state.sql.owner_data import SqlOwnerData
from gateway.state.sql.responses import SqlResponseStore
from gateway.state.sql.retention import SqlRetention
from gateway.state.values import SchemaMismatch
from gateway.state.vectors.entries import detach_deleted_files
from gateway.state.vectors.indexing import SqlIndexingQueue
from gateway.state.vectors.outdated_vectors import SqlEmbeddingQueue
from gateway.state.vectors.stores import SqlVectorStores

_SEALING_KEY_ID: Final = "first"
_SEALING_KEY_BYTES: Final = 32


class SqlStore:
    """Implements `Store` over one `Database`, which its parts share. Raises ValueError if `settings.url` is None."""

    def __init__(self, settings: StoreSettings, background: BackgroundSettings, *, needs_vectors: bool = False) -> None:
        if settings.url is None:
            raise ValueError("there is no store without store.url")
        file = sqlite_path_of(settings.url)
        self._sealing_key: bytes | None = None
        self._needs_vectors = needs_vectors
        database = Database(
            settings.url,
            deadline_s=settings.deadline_s,
            prepare=self._prepare_in_transaction,
            max_page_bytes=int(settings.max_page_mb * 1024 * 1024),
        )
        self._process_lock = ProcessLock(file, deadline_s=settings.deadline_s) if file else None
        notifier = ChangeNotifier(database, poll_s=settings.poll_s)
        self._database, self._notifier = database, notifier
        self.responses = SqlResponseStore(database, notifier, lease_s=background.lease_s)
        limits = HistoryLimits(settings.max_history_items, int(settings.max_history_mb * 1024 * 1024))
        self.history = SqlHistoryReader(database, limits)
        self.conversations = SqlConversationStore(database)
        self.completions = SqlCompletionStore(database)
        self.event_log = SqlEventLog(database, notifier)
        self.jobs = SqlJobQueue(database, notifier, lease_s=background.lease_s)
        self.call_journal = SqlCallJournal(database)
        self.open_calls = SqlOpenCallStore(database)
        self.grants = SqlGrantStore(database)
        self.added_servers = SqlAddedServerStore(database)
        self.idempotency_keys = SqlKeyStore(database)
        self.prompts = SqlPromptStore(database)
        file_deleter = FileDeleter([detach_deleted_files])
        self.files = SqlFileStore(database, file_deleter)
        self.uploads = SqlUploadStore(database)
        self.vector_stores = SqlVectorStores(database)
        self.indexing = SqlIndexingQueue(database)
        self.embedding = SqlEmbeddingQueue(database)
        self.owner_data = SqlOwnerData(database, notifier, file_deleter)
        self.approvals = SqlApprovalStore(database, self.owner_data.was_erased_since)
        self.retention = SqlRetention(
            database,
            file_deleter,
            events_hours=settings.events_hours,
            idempotency_hours=settings.idempotency_hours,
        )

    async def open(self) -> None:
        if self._process_lock is None:
            await self._prepare_database()
            return
        create_database_file(self._process_lock.path)
        async with self._process_lock.acquire() as is_alone:
            await self._prepare_database()
            if is_alone:
                with suppress(StoreUnavailable):  # the leases expire later anyway
                    await self.jobs.fail_orphaned_responses(is_only_process=True)
                    await settle_abandoned_calls(self._database, is_only_process=True)

    async def require_vectors(self) -> None:
        async with self._database.read_transaction() as connection:
            await require_vector_table(connection)

    async def aclose(self) -> None:
        """Stops appending to event logs and listening for changes, and closes every connection."""
        await self.event_log.stop_appending()
        await self._notifier.aclose()
        await self._database.aclose()
        if self._process_lock is not None:
            self._process_lock.release()

    @property
    def degraded_reason(self) -> str | None:
        return self._database.degraded_reason

    @property
    def times(self) -> Mapping[str, Histogram]:
        return self._database.times

    @property
    def sealing_key(self) -> bytes | None:
        return self._sealing_key

    async def _prepare_in_transaction(self, connection: AsyncConnection) -> None:
        await (require_current_schema if self._process_lock is None else migrate_in_transaction)(connection)
        if self._needs_vectors:
            await require_vector_table(connection)
        self._sealing_key = await load_or_create_sealing_key(connection)

    async def _prepare_database(self) -> None:
        try:
            with suppress(StoreUnavailable):  # `degraded_reason` reports it, and every use tries again
                await self._database.prepare(deadline_s=None if self._process_lock is None else MIGRATION_DEADLINE_S)
        except SchemaMismatch:
            await self.aclose()
            raise


async def load_or_create_sealing_key(connection: AsyncConnection) -> bytes:
    """Returns the key that all users of the database share. The first call creates it.

    The key seals values that clients carry, unless the configuration sets keys. The connection is in a transaction that
    can write.
    """
    select_key = select(sealing_keys.c.key).where(sealing_keys.c.id == _SEALING_KEY_ID)
    key: bytes | None = await connection.scalar(select_key)
    if key is None:
        insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
        insert_key = insert(sealing_keys).values(id=_SEALING_KEY_ID, key=token_bytes(_SEALING_KEY_BYTES))
        # If several processes insert at once, one succeeds; the others wait for it and then read its key.
        await connection.execute(insert_key.on_conflict_do_nothing())
        key = (await connection.execute(select_key)).scalar_one()
    return key
