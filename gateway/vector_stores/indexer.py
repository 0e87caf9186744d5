"""Indexes files of vector stores while the server runs: claims them, reads them, and stores their chunks."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Final

import structlog

from gateway.config.tool_settings import FileSearchSettings
from gateway.errors import FileNotFound, FileStorageUnavailable, StoreUnavailable
from gateway.files.stored_files import StoredFiles
from gateway.logs import log_round_faults
from gateway.retrieval.embedding import FindEmbedder
from gateway.retrieval.parsing.parsed_text import IndexedChunk, UnreadableFile
from gateway.state.vector_records import IndexingClaim, IndexingQueue, NewChunk
from gateway.vector_stores.file_parsers import FileParsers
from gateway.vector_stores.patient_embedder import IndexingPostponed, PatientEmbedder, Tries

_log = structlog.get_logger(__name__)

_POLL_S: Final = 5.0
"""Seconds between two looks for files that another process left."""

_EXTRA_PLACES: Final = 1
"""Files beyond `workers` that are indexed at once, of owners none of whose files is being indexed: one owner's large
files may take hours, above all where the model of embeddings is slow."""

_RENEWALS_PER_LEASE: Final = 3

_CHUNKS_AT_ONCE: Final = 24


class Indexer:
    """Indexes files in one server process. Each is leased, so that another process takes it over if this one dies."""

    def __init__(
        self,
        queue: IndexingQueue,
        files: StoredFiles,
        settings: FileSearchSettings,
        *,
        lease_s: float,
        find_embedder: FindEmbedder = lambda: None,
    ) -> None:
        self._queue = queue
        self._files = files
        self._settings = settings
        self._lease_s = lease_s
        self._find_embedder = find_embedder
        self._parsers = FileParsers()
        self._changed = asyncio.Event()
        self._running: dict[IndexingClaim, asyncio.Task[None]] = {}

    def use_settings(self, settings: FileSearchSettings) -> None:
        """Indexes all further files by these settings."""
        self._settings = settings
        self._changed.set()

    def notify(self) -> None:
        """Makes the indexer look for waiting files at once, and not only at its next regular look."""
        self._changed.set()

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None, None]:
        """Indexes files until the block ends. Files that are not done then can be claimed by other processes."""
        async with asyncio.TaskGroup() as group:
            loops = (self._claim_forever(group), self._renew_forever(), self._remove_forever())
            tasks = [group.create_task(loop) for loop in loops]
            try:
                yield
            finally:
                left = list(self._running)
                for task in (*tasks, *self._running.values()):
                    task.cancel()
                with log_round_faults(_log, "releasing_leases_failed"):  # the leases expire then
                    await self._queue.release_claims(left)
                await self._parsers.aclose()

    async def _claim_forever(self, group: asyncio.TaskGroup) -> None:
        while True:
            self._changed.clear()
            free = self._settings.workers - len(self._running)
            claims: Sequence[IndexingClaim] = []
            with log_round_faults(_log, "claiming_files_failed"):
                if free > 0:
                    claims = await self._queue.claim_entries(free, lease_s=self._lease_s)
                elif free > -_EXTRA_PLACES:
                    busy = {claim.owner for claim in self._running}
                    claims = await self._queue.claim_entries(_EXTRA_PLACES, lease_s=self._lease_s, but_of=busy)
                for claim in claims:
                    self._running[claim] = group.create_task(self._index(claim))
            if len(claims) < free or free <= 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_S):
                        await self._changed.wait()

    async def _remove_forever(self) -> None:
        """Deletes chunks that count no more. They may be so many that files must not wait for that."""
        while True:
            with log_round_faults(_log, "removing_chunks_failed"):
                await self._queue.remove_chunks()
            await asyncio.sleep(_POLL_S)

    async def _renew_forever(self) -> None:
        while True:
            await asyncio.sleep(self._lease_s / _RENEWALS_PER_LEASE)
            claims = list(self._running)
            if not claims:
                continue
            held = set(claims)
            with log_round_faults(_log, "renewing_leases_failed"):
                held = set(await self._queue.renew_claims(claims, lease_s=self._lease_s))
            for claim in claims:
                if claim not in held and (task := self._running.get(claim)) is not None:
                    task.cancel()

    async def _index(self, claim: IndexingClaim) -> None:
        try:
            await self._index_file(claim)
        finally:
            self._running.pop(claim, None)
            self._changed.set()

    async def _index_file(self, claim: IndexingClaim) -> None:
        try:
            tries = Tries(claim.tries, self._settings.tries)
            try:
                await self._read_or_postpone(claim, tries)
            except UnreadableFile as fault:
                await self._queue.fail_entry(claim, (fault.code, fault.message))
                _log.info("file_not_indexed", file_id=claim.file_id, code=fault.code)
            except FileNotFound:
                await self._queue.fail_entry(claim, ("server_error", "The file was deleted."))
            except StoreUnavailable:
                raise
            except Exception:  # whatever a file does to its reader, it fails alone
                _log.exception("indexing_failed", file_id=claim.file_id)
                await self._queue.fail_entry(claim, ("server_error", "The file could not be indexed."))
        except StoreUnavailable as error:
            # The lease ends, and the file is claimed again.
            _log.warning("indexing_interrupted", file_id=claim.file_id, cause=str(error))
        except Exception:  # the lease ends as well
            _log.exception("indexing_interrupted", file_id=claim.file_id)

    async def _read_or_postpone(self, claim: IndexingClaim, tries: Tries) -> None:
        try:
            await self._read_file(claim, tries)
            return
        except IndexingPostponed as error:
            postponed = error
        except FileStorageUnavailable:
            postponed = tries.postpone(None, "The bytes of the file cannot be read now: attach it again later.")
        except StoreUnavailable as error:
            # If the database is away, this try is not recorded either: the lease ends, and the file is claimed again.
            _log.warning("indexing_interrupted", file_id=claim.file_id, cause=str(error))
            postponed = tries.postpone(None, "The text of the file cannot be stored now: attach it again later.")
        await self._queue.postpone_entry(claim, postponed.wait_s, postponed.tries)
        _log.info("indexing_postponed", file_id=claim.file_id, tries=postponed.tries, wait_s=round(postponed.wait_s))

    async def _read_file(self, claim: IndexingClaim, tries: Tries) -> None:
        settings, maker = self._settings, self._find_embedder()
        embedder = None if maker is None else PatientEmbedder(maker, tries)
        stored = await self._files.load_file(claim.owner, claim.file_id)
        pieces: list[str] = []
        batch: list[NewChunk] = []
        last_end = 0
        async with (
            self._files.open_descriptor(claim.owner, stored) as file,
            aclosing(self._parsers.parse(file, stored.filename, settings, claim.sizes, tries)) as parts,
        ):
            async for part in parts:
                if isinstance(part, str):
                    pieces.append(part)
                    continue
                if len(pieces) > 1:
                    pieces = ["".join(pieces)]
                for chunk in part:
                    batch.append(_build_chunk(pieces[0], chunk, last_end))
                    last_end = chunk.end
                if len(batch) >= _CHUNKS_AT_ONCE:
                    if not await self._add_chunks(claim, batch, embedder):
                        return
                    batch = []
        if batch and not await self._add_chunks(claim, batch, embedder):
            return
        await self._queue.complete_entry(claim)

    async def _add_chunks(
        self, claim: IndexingClaim, chunks: Sequence[NewChunk], embedder: PatientEmbedder | None
    ) -> bool:
        """Stores chunks, with vectors if there is a model of them. Returns False if the claim is no longer held."""
        if embedder is None:
            return await self._queue.add_chunks(claim, chunks)
        vectors = await embedder.embed([chunk.text for chunk in chunks])
        with_vectors = [chunk._replace(embedding=vector) for chunk, vector in zip(chunks, vectors, strict=True)]
        return await self._queue.add_chunks(claim, with_vectors, embedder.name)


def _build_chunk(text: str, chunk: IndexedChunk, last_end: int) -> NewChunk:
    return NewChunk(text[chunk.start : chunk.end], chunk.terms, max(0, last_end - chunk.start))
