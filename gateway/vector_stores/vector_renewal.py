"""Makes the vectors of indexed files again after the model of embeddings has changed, one file at a time.

Files of a store that was indexed by words get their first vectors in the same way. Meanwhile they are found by words.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

import structlog

from gateway.config.tool_settings import FileSearchSettings
from gateway.logs import log_round_faults
from gateway.retrieval.embedding import FindEmbedder
from gateway.retrieval.parsing.parsed_text import UnreadableFile
from gateway.state.vector_records import EmbeddingClaim, EmbeddingQueue
from gateway.vector_stores.patient_embedder import IndexingPostponed, PatientEmbedder, Tries

_log = structlog.get_logger(__name__)

_POLL_S: Final = 30.0
"""Seconds between two looks for files with other vectors, if there were none, and after a failure."""

_REST_S: Final = 600.0
"""So long nobody else replaces the vectors of a file again. Two servers with different models, as during an update of a
fleet, would do it in turns."""

_RETRY_S: Final = 3600.0
"""A file whose vectors cannot be made is tried again after this."""

_EMBEDDING_S: Final = 120.0
"""What the vectors of some chunks may take, besides the lease."""

_CHUNKS_AT_ONCE: Final = 24


class VectorRenewal:
    """Renews the vectors of files in one server process. Each file is leased meanwhile."""

    def __init__(
        self, queue: EmbeddingQueue, settings: FileSearchSettings, find_embedder: FindEmbedder, *, lease_s: float
    ) -> None:
        self._queue = queue
        self._settings = settings
        self._find_embedder = find_embedder
        self._lease_s: Final = lease_s + _EMBEDDING_S
        self._changed = asyncio.Event()
        self._last_owner = ""

    def use_settings(self, settings: FileSearchSettings) -> None:
        """Looks at once for files with vectors of another model than that of these settings."""
        self._settings = settings
        self._changed.set()

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None, None]:
        """Renews vectors until the block ends."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._renew_forever())
            try:
                yield
            finally:
                task.cancel()

    async def _renew_forever(self) -> None:
        while True:
            self._changed.clear()
            wait_s = _POLL_S
            with log_round_faults(_log, "renewing_vectors_failed"):
                wait_s = await self._renew_next()
            if wait_s:
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._changed.wait()

    async def _renew_next(self) -> float:
        """Renews the vectors of the next file: owners take turns. Returns the seconds to wait after it."""
        maker = self._find_embedder()
        if maker is None:
            return _POLL_S
        claim = await self._queue.claim_outdated(maker.name, self._last_owner, lease_s=self._lease_s)
        if claim is None:
            return _POLL_S
        self._last_owner = claim.owner
        return await self._renew_file(claim, PatientEmbedder(maker, Tries(claim.tries, self._settings.tries)))

    async def _renew_file(self, claim: EmbeddingClaim, embedder: PatientEmbedder) -> float:
        first = 0
        try:
            while texts := await self._queue.load_texts(claim, first, _CHUNKS_AT_ONCE):
                vectors = await embedder.embed([each.text for each in texts])
                by_number = {each.number: vector for each, vector in zip(texts, vectors, strict=True)}
                growth = sum(map(len, vectors)) - sum(each.vector_bytes for each in texts)
                held = await self._queue.replace_vectors(claim, by_number, growth, lease_s=self._lease_s)
                if held is None:
                    return 0.0
                claim = held
                first = texts[-1].position + 1
        except IndexingPostponed as postponed:
            await self._queue.postpone_vectors(claim, postponed.wait_s, postponed.tries)
            # Only this file has to wait: those of other owners go on, whatever is wrong with this one.
            return min(postponed.wait_s, _POLL_S)
        except UnreadableFile:
            # The file is indexed, so it does not fail: it is found by words.
            await self._queue.postpone_vectors(claim, _RETRY_S, 0)
            _log.warning("vectors_not_renewed", file_id=claim.file_id)
            return _POLL_S
        if await self._queue.complete_vectors(claim, embedder.name, rest_s=_REST_S):
            _log.info("vectors_renewed", file_id=claim.file_id)
        return 0.0
