"""Makes the vectors of a file in spite of failures that pass, such as a busy or restarting upstream.

A short wait happens in its place, and keeps what was indexed of the file. A long one puts the file off: its place is
free for others meanwhile, and any server goes on with it later.
"""

import random
from asyncio import sleep
from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from gateway.retrieval.embedding import Embedder, Vector
from gateway.retrieval.parsing.parsed_text import UnreadableFile
from gateway.upstreams.outcomes import OUTCOMES, Outcome, find_outcome
from gateway.upstreams.retry_delays import forbids_retry
from gateway.upstreams.turn_failures import read_delay
from providers.errors import ProviderError
from translation.errors import TranslationError

_log = structlog.get_logger(__name__)

_LONGEST_WAIT_S: Final = 300.0
_LONGEST_NAMED_WAIT_S: Final = 3600.0
"""An upstream that names a longer one is asked again after this."""

_HELD_S: Final = 8.0
_HELD_IF_NAMED_S: Final = 60.0
"""So long a file keeps its place and what was indexed of it. Upstreams that count requests name such waits again and
again, so that a large file would never be complete if it began anew after each."""

_TEMPORARY: Final = tuple(
    OUTCOMES[name]
    for name in (
        "unreachable",
        "no_connection_free",
        "reset",
        "broken",
        "request_timeout",
        "timeout",
        "server_error",
        "internal_error",
        "overloaded",
        "passing_overload",
        "engine_unavailable",
        "rate_limited",
    )
)

_REMEDIES: Final[Mapping[str, str]] = {
    "quota": "The account of the model of embeddings has no quota left: attach the file again later.",
    "unauthorized": "The model of embeddings refuses the gateway's key: its operator has to renew it.",
    "forbidden": "The model of embeddings refuses the gateway's key: its operator has to renew it.",
    "not_found": "Its provider does not have the model of embeddings: the gateway's operator has to name another one.",
    "context_length_exceeded": "A chunk is too long for the model of embeddings: attach the file with a smaller "
    "max_chunk_size_tokens.",
}


class IndexingPostponed(Exception):
    """A file cannot be indexed now, for a reason that passes. `tries` counts how often it was tried."""

    def __init__(self, wait_s: float, tries: int) -> None:
        super().__init__(f"try {tries}")
        self.wait_s: Final = wait_s
        self.tries: Final = tries


class Tries:
    """Counts the tries of one file, over all servers that tried it. Raises UnreadableFile after `most`."""

    def __init__(self, before: int, most: int) -> None:
        self._before: Final = before
        self._most: Final = most
        self._failures = 0

    def clear(self) -> None:
        """Forgets the failures since the file was claimed, because something succeeded. Earlier ones count on: else a
        file of which one chunk can never be embedded would be tried for ever."""
        self._failures = 0

    def postpone(self, named_s: float | None, message: str) -> IndexingPostponed:
        """Counts a failure that passes. Returns how long to wait; `named_s` is the wait that the upstream asks for."""
        self._failures += 1
        tries = self._before + self._failures
        if tries >= self._most:
            raise UnreadableFile("server_error", message)
        own_s = min(2.0 ** (tries - 1), _LONGEST_WAIT_S) * random.uniform(0.75, 1.0)
        return IndexingPostponed(max(own_s, min(named_s or 0.0, _LONGEST_NAMED_WAIT_S)), tries)


class PatientEmbedder:
    """Makes the vectors of one file, of some chunks at a time."""

    def __init__(self, embedder: Embedder, tries: Tries) -> None:
        self.name: Final = embedder.name
        self._embedder: Final = embedder
        self._tries: Final = tries

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        """Returns the vectors of texts, in their order.

        Raises IndexingPostponed, and UnreadableFile for a failure that does not pass, or after the last try.
        """
        while True:
            try:
                vectors = await self._embedder.embed(texts)
            except (ProviderError, TranslationError) as error:
                await self._wait(error)
            else:
                self._tries.clear()
                return vectors

    async def _wait(self, error: ProviderError | TranslationError) -> None:
        outcome = find_outcome(error)
        _log.warning("embedding_failed", cause=type(error).__name__)
        if outcome is None or not _passes(error, outcome):
            raise UnreadableFile("server_error", _explain_failure(error, outcome)) from error
        delay = read_delay(error, outcome)
        named_s = None if delay is None else delay[0]
        postponed = self._tries.postpone(
            named_s, "The model of embeddings has failed at every try: attach the file again later."
        )
        if postponed.wait_s > (_HELD_S if named_s is None else _HELD_IF_NAMED_S):
            raise postponed from error
        await sleep(postponed.wait_s)


def is_model_away(error: Exception) -> bool:
    """Whether an error of a model of embeddings passes by itself: it is busy or away."""
    if not isinstance(error, ProviderError | TranslationError):
        return False
    outcome = find_outcome(error)
    return outcome is not None and _passes(error, outcome)


def _passes(error: Exception, outcome: Outcome) -> bool:
    headers = getattr(error, "headers", {})
    return outcome in _TEMPORARY and not forbids_retry(headers)


def _explain_failure(error: ProviderError | TranslationError, outcome: Outcome | None) -> str:
    for name, text in _REMEDIES.items():
        if outcome is OUTCOMES[name]:
            return text
    if isinstance(error, TranslationError):  # it has nothing of the upstream's reply but numbers
        return f"The model of embeddings cannot be used: {error}."
    status = getattr(error, "status", None)
    return "The model of embeddings refuses a chunk of the file" + ("." if status is None else f": status {status}.")
