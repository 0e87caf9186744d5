"""Searches the chunks of one vector store: candidates by the index of terms and by vectors, then exact scores."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
from sqlalchemy import BigInteger, Row, Select, Text, and_, bindparam, cast, func, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from dataplane.sharing.work_pool import run_in_pool
from gateway.retrieval.attribute_filters import AttributeFilter
from gateway.retrieval.embedding import QueryVectors
from gateway.retrieval.scoring import Corpus, QueryScorer, fuse_ranks, join_scores
from gateway.state.database.database import fetch_rows
from gateway.state.database.tables import files, vector_chunks, vector_store_files, vector_stores
from gateway.state.records.files import has_not_expired
from gateway.state.row_values import read_clock_us
from gateway.state.vector_records import ChunkQuery, ScoredChunk
from gateway.state.vectors.entries import is_entry
from gateway.state.vectors.term_index import Match, TermIndex, TermQuery
from gateway.state.vectors.vector_index import VectorIndex

_MIN_CANDIDATES: Final = 200
_CANDIDATES_PER_RESULT: Final = 8
"""The index orders candidates by a slightly different score than theirs."""

_LEAST_SHARE: Final = 0.1
"""A chunk that covers less of a query has only its usual words, such as articles: their order would be chance."""

_entries: Final = vector_store_files.c
_owner, _store_id = (bindparam(name, type_=Text) for name in ("its_owner", "its_store_id"))
_is_searched: Final = and_(is_entry(_owner, _store_id), _entries.status == "completed")

_sizes: Final = (
    select(
        *(
            cast(func.coalesce(func.sum(column), 0), BigInteger).label(column.name)
            for column in (_entries.chunks, _entries.terms)
        )
    )
    .where(_is_searched)
    .subquery()
)
_SELECT_STORE: Final = (
    select(
        vector_stores.c.owner,
        vector_stores.c.id,
        vector_stores.c.used_us,
        vector_stores.c.expires_us,
        vector_stores.c.expires_days,
        *_sizes.c,
    )
    .join(_sizes, true())
    .where(vector_stores.c.owner == _owner, vector_stores.c.id == _store_id)
)
_is_file_of_entry: Final = and_(files.c.owner == _entries.owner, files.c.id == _entries.file_id)
_SELECT_ATTRIBUTES: Final = select(_entries.file_id, _entries.attributes).where(_is_searched)
_SELECT_TEXTS: Final = (
    select(vector_chunks.c.number, vector_chunks.c.text, files.c.filename, files.c.expires_us, _entries.attributes)
    .join(
        vector_store_files,
        and_(
            _entries.owner == vector_chunks.c.owner,
            _entries.store_id == vector_chunks.c.store_id,
            _entries.file_id == vector_chunks.c.file_id,
        ),
    )
    .join(files, _is_file_of_entry)
    .where(vector_chunks.c.number.in_(bindparam("numbers", expanding=True)))
)


class _Candidate(NamedTuple):
    """A chunk that a search found, by the number of its row."""

    number: int
    file_id: str
    position: int
    score: float


class StoreSearch:
    """A search of one vector store, within a transaction that sees one snapshot."""

    def __init__(
        self,
        connection: AsyncConnection,
        owner: str,
        store_id: str,
        indexes: tuple[TermIndex, VectorIndex],
    ) -> None:
        self._connection = connection
        self._keys = {"its_owner": owner, "its_store_id": store_id}
        self._store_id = store_id
        self._terms, self._vectors = indexes

    async def load_store(self, query: ChunkQuery) -> Row[Any] | None:
        """Returns the row of the store, with the chunks and terms of all its files; None if it does not exist.

        It is the first step of a search: `find_chunks` takes the row.
        """
        # One trip for both, unless vectors are compared before, which has to be planned as usual.
        planning = () if query.vectors is not None else self._terms.planning
        return (await self._connection.execute(_SELECT_STORE.add_columns(*planning), self._keys)).one_or_none()

    async def find_chunks(self, store: Row[Any], query: ChunkQuery) -> Sequence[ScoredChunk]:
        """Returns the chunks with the highest scores, best first.

        Files are filtered before chunks are chosen, so that a filter never makes results fewer than there are.
        """
        now_us = read_clock_us()
        accepted = None if query.accepts is None else await self._select_files(_SELECT_ATTRIBUTES, query.accepts)
        corpus = Corpus(store.chunks, store.terms)
        chunks = await self._search_files(corpus, query, accepted, now_us)
        if chunks is None:
            unexpired = _SELECT_ATTRIBUTES.join(files, _is_file_of_entry).where(has_not_expired())
            accepted = await self._select_files(unexpired, query.accepts)
            chunks = await self._search_files(corpus, query, accepted, now_us)
        return chunks or []

    async def _select_files(self, statement: Select[Any], accepts: AttributeFilter | None) -> Sequence[str]:
        """Returns the ids of the files that a filter accepts, if there is one."""
        rows = await fetch_rows(await self._connection.execute(statement, self._keys))
        if accepts is None:
            return [row.file_id for row in rows]
        return await run_in_pool(lambda: [row.file_id for row in rows if accepts(orjson.loads(row.attributes))])

    async def _search_files(
        self, corpus: Corpus, query: ChunkQuery, accepted: Sequence[str] | None, now_us: int
    ) -> list[ScoredChunk] | None:
        """Returns the best chunks of the accepted files. It is None if one of them is of a file that has expired: such
        files are rare, because they are soon detached, so they are not looked for before."""
        if not corpus.chunks or (accepted is not None and not accepted):
            return []
        limit = max(_MIN_CANDIDATES, query.limit * _CANDIDATES_PER_RESULT)
        by_meaning: Sequence[_Candidate] = []
        if query.vectors is not None and query.vectors.vectors:
            closest = await self._vectors.find_closest(self._connection, query.vectors, accepted, limit)
            by_meaning = [_Candidate(*chunk, 0.0) for chunk in closest]
        by_words = await self._search_words(corpus, query, accepted, limit)
        best = by_words if query.vectors is None else _join_orders(by_words, by_meaning, query.vectors)
        return await self._load_chunks(best[: query.limit], now_us)

    async def _search_words(
        self, corpus: Corpus, query: ChunkQuery, accepted: Sequence[str] | None, limit: int
    ) -> list[_Candidate]:
        """Returns the chunks that have words of the query, best first."""
        terms = list(dict.fromkeys(term for terms in query.terms for term in terms))
        if not terms:
            return []
        if query.vectors is not None and self._terms.planning:
            await self._connection.execute(select(*self._terms.planning))
        term_matches = await self._terms.find_matches(self._connection, TermQuery(terms, corpus, limit, accepted))
        return await run_in_pool(_score_matches, term_matches.matches, corpus, term_matches.frequencies, query)

    async def _load_chunks(self, best: Sequence[_Candidate], now_us: int) -> list[ScoredChunk] | None:
        """Returns chunks with their texts, which only these few need: on PostgreSQL they lie apart from their rows.
        Returns None if the file of one has expired."""
        if not best:
            return []
        numbers = [candidate.number for candidate in best]
        rows = {row.number: row for row in await self._connection.execute(_SELECT_TEXTS, {"numbers": numbers})}
        chunks = []
        for number, file_id, position, score in best:
            row = rows[number]
            if row.expires_us is not None and row.expires_us <= now_us:
                return None
            attributes = orjson.loads(row.attributes)
            chunks.append(ScoredChunk(self._store_id, file_id, row.filename, attributes, position, row.text, score))
        return chunks


def _score_matches(
    matches: Sequence[Match], corpus: Corpus, frequencies: Mapping[str, int], query: ChunkQuery
) -> list[_Candidate]:
    # A term that no chunk has counts too: a chunk that covers all other terms covers the query only in part.
    scorers = [QueryScorer(corpus, {term: frequencies.get(term, 0) for term in terms}) for terms in query.terms]
    scored = []
    for number, file_id, position, joined in matches:
        terms = joined.split(" ")
        score = join_scores(scorer.score(terms) for scorer in scorers)
        if score:
            scored.append(_Candidate(number, file_id, position, score))
    scored.sort(key=lambda chunk: (-chunk.score, chunk.file_id, chunk.position))
    return scored


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
