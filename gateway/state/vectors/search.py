"""Searches the chunks of one vector store: candidates by the index of terms and by vectors, then exact scores."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
from sqlalchemy import Row, and_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from dataplane.sharing.work_pool import run_in_pool
from gateway.retrieval.embedding import QueryVectors
from gateway.retrieval.scoring import Corpus, QueryScorer, fuse_ranks, join_scores
from gateway.state.database.database import ROWS_AT_ONCE, fetch_rows
from gateway.state.database.tables import files, vector_chunks, vector_store_files
from gateway.state.vector_records import ChunkQuery, ScoredChunk
from gateway.state.vectors.entries import is_entry
from gateway.state.vectors.term_index import TermIndex, TermQuery
from gateway.state.vectors.vector_index import VectorIndex

_MIN_CANDIDATES: Final = 200
_CANDIDATES_PER_RESULT: Final = 8
"""The index orders candidates by a slightly different score than theirs."""

_LEAST_SHARE: Final = 0.1
"""A chunk that covers less of a query has only its usual words, such as articles: their order would be chance."""

_entries: Final = vector_store_files.c


class _File(NamedTuple):
    """A file that the filter of a query accepts."""

    filename: str
    attributes: Mapping[str, Any]
    attempt: int
    embedder: str | None


class _Candidate(NamedTuple):
    """A chunk that a search found, by the number of its row."""

    number: int
    file_id: str
    position: int
    score: float


async def search_chunks(
    connection: AsyncConnection,
    indexes: tuple[TermIndex, VectorIndex],
    owner: str,
    store_id: str,
    query: ChunkQuery,
) -> Sequence[ScoredChunk]:
    """Returns the chunks with the highest scores, best first, within a transaction.

    Files are filtered before chunks are chosen, so that a filter never makes results fewer than there are.
    """
    names = (
        select(
            _entries.file_id,
            _entries.attributes,
            _entries.chunks,
            _entries.terms,
            _entries.attempt,
            _entries.embedder,
            files.c.filename,
        )
        .join(files, and_(files.c.owner == _entries.owner, files.c.id == _entries.file_id))
        .where(is_entry(owner, store_id), _entries.status == "completed")
    )
    entries = await fetch_rows(await connection.execute(names))
    is_short = query.accepts is None and len(entries) < ROWS_AT_ONCE
    accepted = _select_entries(entries, query) if is_short else await run_in_pool(_select_entries, entries, query)
    if not accepted:
        return []
    terms, vectors = indexes
    limit = max(_MIN_CANDIDATES, query.limit * _CANDIDATES_PER_RESULT)
    by_meaning: Sequence[_Candidate] = []
    if query.vectors is not None and query.vectors.vectors:
        name = query.vectors.embedder
        attempts = {file_id: file.attempt for file_id, file in accepted.items() if file.embedder == name}
        closest = await vectors.find_closest(connection, query.vectors.vectors, attempts, limit) if attempts else []
        by_meaning = [_Candidate(row.number, row.file_id, row.position, 0.0) for row in closest]
    # After the vectors, because it changes how the rest of the transaction is planned.
    by_words = await _search_words(connection, terms, entries, accepted, query, limit)
    best = by_words if query.vectors is None else _join_orders(by_words, by_meaning, query.vectors)
    return await _load_chunks(connection, store_id, best[: query.limit], accepted)


async def _search_words(
    connection: AsyncConnection,
    index: TermIndex,
    entries: Sequence[Row[Any]],
    accepted: Mapping[str, _File],
    query: ChunkQuery,
    limit: int,
) -> list[_Candidate]:
    """Returns the chunks that have words of the query, best first."""
    corpus = Corpus(sum(row.chunks for row in entries), sum(row.terms for row in entries))
    terms = list(dict.fromkeys(term for terms in query.terms for term in terms))
    if not terms:
        return []
    files = None if len(accepted) == len(entries) else list(accepted)
    frequencies, rows = await index.find_matches(connection, TermQuery(terms, corpus, limit, files))
    return await run_in_pool(_score_rows, rows, accepted, corpus, frequencies, query)


def _select_entries(entries: Sequence[Row[Any]], query: ChunkQuery) -> Mapping[str, _File]:
    """Returns the files that the filter accepts, by their ids."""
    accepted = {}
    for row in entries:
        attributes = orjson.loads(row.attributes)
        if query.accepts is None or query.accepts(attributes):
            accepted[row.file_id] = _File(row.filename, attributes, row.attempt, row.embedder)
    return accepted


def _score_rows(
    rows: Sequence[Row[Any]],
    accepted: Mapping[str, _File],
    corpus: Corpus,
    frequencies: Mapping[str, int],
    query: ChunkQuery,
) -> list[_Candidate]:
    # A term that no chunk has counts too: a chunk that covers all other terms covers the query only in part.
    scorers = [QueryScorer(corpus, {term: frequencies.get(term, 0) for term in terms}) for terms in query.terms]
    scored = []
    for row in rows:
        terms = row.terms.split(" ")
        score = join_scores(scorer.score(terms) for scorer in scorers)
        if score and row.file_id in accepted:
            scored.append(_Candidate(row.number, row.file_id, row.position, score))
    scored.sort(key=lambda chunk: (-chunk.score, chunk.file_id, chunk.position))
    return scored


async def _load_chunks(
    connection: AsyncConnection, store_id: str, best: Sequence[_Candidate], accepted: Mapping[str, _File]
) -> list[ScoredChunk]:
    """Returns chunks with their texts, which only these few need: on PostgreSQL they lie apart from their rows."""
    if not best:
        return []
    chunks = vector_chunks.c
    numbers = [candidate.number for candidate in best]
    query = select(chunks.number, chunks.text).where(chunks.number.in_(numbers))
    texts = {row.number: row.text for row in await connection.execute(query)}
    return [
        ScoredChunk(
            store_id,
            candidate.file_id,
            accepted[candidate.file_id].filename,
            accepted[candidate.file_id].attributes,
            candidate.position,
            texts[candidate.number],
            candidate.score,
        )
        for candidate in best
    ]


def _join_orders(
    by_words: Sequence[_Candidate], by_meaning: Sequence[_Candidate], vectors: QueryVectors
) -> list[_Candidate]:
    """Returns the chunks of both orders, best first. Their scores say how far in front they are in both."""
    matching = [chunk for chunk in by_words if chunk.score >= _LEAST_SHARE]
    word_ranks, meaning_ranks = (
        {(chunk.file_id, chunk.position): rank for rank, chunk in enumerate(chunks, 1)}
        for chunks in (matching, by_meaning)
    )
    chunks = {(chunk.file_id, chunk.position): chunk for chunk in (*by_words, *by_meaning)}
    joined = [
        chunk._replace(
            score=fuse_ranks(
                ((word_ranks.get(key), vectors.text_weight), (meaning_ranks.get(key), vectors.meaning_weight))
            )
        )
        for key, chunk in chunks.items()
    ]
    return sorted(joined, key=lambda chunk: (-chunk.score, chunk.file_id, chunk.position))
