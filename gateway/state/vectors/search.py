"""Searches the chunks of one vector store: candidates by the index of terms, then exact scores."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
from sqlalchemy import Row, and_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from dataplane.sharing.work_pool import run_in_pool
from gateway.retrieval.scoring import Corpus, QueryScorer, join_scores
from gateway.state.database.database import fetch_rows
from gateway.state.database.tables import files, vector_chunks, vector_store_files
from gateway.state.vector_records import ChunkQuery, ScoredChunk
from gateway.state.vectors.entries import is_entry
from gateway.state.vectors.term_index import TermIndex

_MIN_CANDIDATES: Final = 200
_CANDIDATES_PER_RESULT: Final = 8
"""The index orders candidates by a slightly different score than theirs."""

_entries: Final = vector_store_files.c
_chunks: Final = vector_chunks.c


async def search_chunks(
    connection: AsyncConnection, index: TermIndex, owner: str, store_id: str, query: ChunkQuery
) -> Sequence[ScoredChunk]:
    """Returns the chunks with the highest scores, best first, within a transaction.

    Files are filtered before chunks are chosen, so that a filter never makes results fewer than there are.
    """
    names = (
        select(_entries.file_id, _entries.attributes, _entries.chunks, _entries.terms, files.c.filename)
        .join(files, and_(files.c.owner == _entries.owner, files.c.id == _entries.file_id))
        .where(is_entry(owner, store_id), _entries.status == "completed")
    )
    entries = await fetch_rows(await connection.execute(names))
    corpus = Corpus(sum(row.chunks for row in entries), sum(row.terms for row in entries))
    accepted = await run_in_pool(_select_entries, entries, query)
    frequencies: dict[str, int] = {}
    for term in dict.fromkeys(term for terms in query.terms for term in terms):
        if count := await connection.scalar(index.count_matches(term)):
            frequencies[term] = count if count < corpus.chunks else corpus.chunks  # of some files chunks are removed
    if not frequencies or not accepted:
        return []
    weights = QueryScorer(corpus, frequencies).weights
    limit = max(_MIN_CANDIDATES, query.limit * _CANDIDATES_PER_RESULT)
    columns = (_chunks.file_id, _chunks.position, _chunks.text, _chunks.terms)
    is_current = and_(
        is_entry(owner, store_id),
        _entries.file_id == _chunks.file_id,
        _entries.attempt == _chunks.attempt,
        _entries.status == "completed",
    )
    candidates = index.select_candidates(columns, weights, limit).where(
        select(_entries.file_id).where(is_current).exists()
    )
    if len(accepted) < len(entries):
        candidates = candidates.where(_chunks.file_id.in_(list(accepted)))
    rows = await fetch_rows(await connection.execute(candidates))
    return await run_in_pool(_score_rows, store_id, rows, accepted, corpus, frequencies, query)


def _select_entries(entries: Sequence[Row[Any]], query: ChunkQuery) -> Mapping[str, tuple[str, dict[str, Any]]]:
    """Returns the files that the filter accepts: their names and attributes by their ids."""
    accepted = {}
    for row in entries:
        attributes = orjson.loads(row.attributes)
        if query.accepts is None or query.accepts(attributes):
            accepted[row.file_id] = (row.filename, attributes)
    return accepted


def _score_rows(
    store_id: str,
    rows: Sequence[Row[Any]],
    accepted: Mapping[str, tuple[str, dict[str, Any]]],
    corpus: Corpus,
    frequencies: Mapping[str, int],
    query: ChunkQuery,
) -> list[ScoredChunk]:
    # A term that no chunk has counts too: a chunk that covers all other terms covers the query only in part.
    scorers = [QueryScorer(corpus, {term: frequencies.get(term, 0) for term in terms}) for terms in query.terms]
    scored = []
    for row in rows:
        terms = row.terms.split(" ")
        score = join_scores(scorer.score(terms) for scorer in scorers)
        if score and row.file_id in accepted:
            filename, attributes = accepted[row.file_id]
            scored.append(ScoredChunk(store_id, row.file_id, filename, attributes, row.position, row.text, score))
    scored.sort(key=lambda chunk: (-chunk.score, chunk.file_id, chunk.position))
    return scored[: query.limit]
