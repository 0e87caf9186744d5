"""The index of terms of vector stores: an FTS5 table for each store on SQLite, a column with a GIN index on PostgreSQL.

A shared table would let one owner's words change the scores of another. Terms are ASCII letters and digits, so that no
sign of a text has a meaning to either index (`gateway/retrieval/terms.py`).
"""

from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import md5
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import orjson
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Integer,
    MetaData,
    Numeric,
    Row,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    cast,
    delete,
    func,
    insert,
    literal,
    select,
    true,
    union_all,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import DDLElement, DropTable
from sqlalchemy.sql.compiler import DDLCompiler
from sqlalchemy.sql.operators import custom_op

from gateway.retrieval.embedding import build_signs, unpack_vector
from gateway.retrieval.scoring import Corpus
from gateway.state.database.database import fetch_rows
from gateway.state.database.tables import TermVector, vector_chunks, vector_store_files

_MATCHES: Final = custom_op[bool]("@@", is_comparison=True)

_TERMS_AT_ONCE: Final = 100
_MATCH_COLUMNS: Final = (
    vector_chunks.c.number,
    vector_chunks.c.file_id,
    vector_chunks.c.position,
    vector_chunks.c.terms,
)

_Id: TypeAlias = str | ColumnElement[str]

_LETTERS: Final = str.maketrans("0123456789", "ghijklmnop")

_PLAN_BY_INDEX: Final = select(
    *(
        func.set_config(name, value, True)
        for name, value in (("enable_seqscan", "off"), ("jit", "off"), ("max_parallel_workers_per_gather", "0"))
    )
)
"""For the rest of the transaction PostgreSQL uses indexes, also of tables whose rows it has not counted, and neither
compiles nor shares a query that takes milliseconds. It does not know how long it takes to read the terms of a row."""


class TermQuery(NamedTuple):
    """A search for the chunks of one store that have some of these terms, at most `limit`."""

    terms: Sequence[str]
    corpus: Corpus
    limit: int
    files: Sequence[str] | None = None
    """The files whose chunks count; None: those of all files of the store."""


class TermMatches(NamedTuple):
    """What an index of terms found: how many chunks have each term, and rows of chunks, best first, with `number`,
    `file_id`, `position` and `terms`. Of some files the chunks are removed: they may be counted, but are no rows."""

    frequencies: Mapping[str, int]
    rows: Sequence[Row[Any]]


class TermIndex(Protocol):
    """The index of the terms of one store's chunks, within a transaction."""

    async def create(self, connection: AsyncConnection) -> None:
        """Creates the index of a new store."""
        ...

    async def drop(self, connection: AsyncConnection) -> None:
        """Deletes the index of a store that is deleted. Its chunks need not be removed from it."""
        ...

    async def add(self, connection: AsyncConnection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Inserts rows of `vector_chunks`, whose terms are indexed."""
        ...

    async def remove(self, connection: AsyncConnection, rows: Sequence[Any]) -> None:
        """Deletes chunks by their rows, which have `number` and `terms`."""
        ...

    async def find_matches(self, connection: AsyncConnection, query: TermQuery) -> TermMatches:
        """Returns how many chunks have each term, and the chunks with the best matches."""
        ...


def _is_current(
    owner: _Id, store_id: _Id, file_id: ColumnElement[str], attempt: ColumnElement[int]
) -> ColumnElement[bool]:
    """Returns the condition that an attempt of indexing a file is the one that completed."""
    entries = vector_store_files.c
    return (
        select(entries.file_id)
        .where(
            entries.owner == owner,
            entries.store_id == store_id,
            entries.file_id == file_id,
            entries.attempt == attempt,
            entries.status == "completed",
        )
        .exists()
    )


class _CreateTermTable(DDLElement):
    inherit_cache = False

    def __init__(self, name: str) -> None:
        self.name = name


@compiles(_CreateTermTable, "sqlite")
def _compile_term_table(element: _CreateTermTable, compiler: DDLCompiler, **_: object) -> str:
    # Contentless: the terms of a chunk are in its own row, from which they are deleted here.
    name = compiler.preparer.quote_identifier(element.name)
    return f"CREATE VIRTUAL TABLE {name} USING fts5(terms, content='', tokenize='ascii')"


class SqliteTermIndex:
    """Implements `TermIndex` with a table of SQLite's extension FTS5."""

    def __init__(self, owner: str, store_id: str) -> None:
        self._name = f"terms_{store_id}"
        self._table = Table(
            self._name, MetaData(), Column("rowid", Integer), Column("terms", Text), Column(self._name, Text)
        )
        self._whole: ColumnElement[str] = self._table.c[self._name]
        self._owner = owner
        self._store_id = store_id
        self._is_own = and_(vector_chunks.c.owner == owner, vector_chunks.c.store_id == store_id)

    async def create(self, connection: AsyncConnection) -> None:
        await connection.execute(_CreateTermTable(self._name))

    async def drop(self, connection: AsyncConnection) -> None:
        await connection.execute(DropTable(self._table, if_exists=True))

    async def add(self, connection: AsyncConnection, rows: Sequence[Mapping[str, Any]]) -> None:
        numbers = (
            await connection.scalars(
                insert(vector_chunks).returning(vector_chunks.c.number, sort_by_parameter_order=True),
                [{**row, "signs": None if row["embedding"] is None else build_signs(row["embedding"])} for row in rows],
            )
        ).all()
        indexed = [{"rowid": number, "terms": row["terms"]} for number, row in zip(numbers, rows, strict=True)]
        await connection.execute(insert(self._table), indexed)

    async def remove(self, connection: AsyncConnection, rows: Sequence[Any]) -> None:
        if not rows:
            return
        # https://www.sqlite.org/fts5.html#the_delete_command
        deleted = [{self._name: "delete", "rowid": row.number, "terms": row.terms} for row in rows]
        await connection.execute(insert(self._table), deleted)
        await connection.execute(delete(vector_chunks).where(vector_chunks.c.number.in_([row.number for row in rows])))

    async def find_matches(self, connection: AsyncConnection, query: TermQuery) -> TermMatches:
        frequencies: dict[str, int] = {}
        for start in range(0, len(query.terms), _TERMS_AT_ONCE):
            counts = [
                select(literal(term).label("term"), self._count_matches(term).scalar_subquery().label("count"))
                for term in query.terms[start : start + _TERMS_AT_ONCE]
            ]
            for term, count in await connection.execute(union_all(*counts)):
                if count:
                    frequencies[term] = min(count, query.corpus.chunks)
        if not frequencies:
            return TermMatches({}, [])
        candidates = (
            select(*_MATCH_COLUMNS)
            .select_from(self._table)
            .join(vector_chunks, vector_chunks.c.number == self._table.c.rowid)
            .where(
                self._whole.match(" OR ".join(frequencies)),
                self._is_own,
                _is_current(self._owner, self._store_id, vector_chunks.c.file_id, vector_chunks.c.attempt),
                true() if query.files is None else vector_chunks.c.file_id.in_(query.files),
            )
            .order_by(func.bm25(self._whole))
            .limit(query.limit)
        )
        return TermMatches(frequencies, await fetch_rows(await connection.execute(candidates)))

    def _count_matches(self, term: str) -> Select[int]:
        return select(func.count()).select_from(self._table).where(self._whole.match(term))


class PostgresTermIndex:
    """Implements `TermIndex` with an index of an expression, `TermVector`."""

    def __init__(self, owner: str, store_id: str) -> None:
        letters = md5(store_id.encode(), usedforsecurity=False).hexdigest()[:8]
        self._prefix = letters.translate(_LETTERS)
        self._owner = owner
        self._store_id = store_id

    async def create(self, connection: AsyncConnection) -> None:
        """Does nothing: all stores share the index."""

    async def drop(self, connection: AsyncConnection) -> None:
        """Does nothing: the entries go with the chunks."""

    async def add(self, connection: AsyncConnection, rows: Sequence[Mapping[str, Any]]) -> None:
        words = bindparam("words", type_=postgresql.ARRAY(Text))
        statement = insert(vector_chunks).values(vector=func.array_to_tsvector(words))
        await connection.execute(
            statement,
            [
                {
                    **row,
                    "words": sorted(set(row["terms"].split())),
                    "embedding": None if row["embedding"] is None else unpack_vector(row["embedding"]),
                }
                for row in rows
            ],
        )

    async def remove(self, connection: AsyncConnection, rows: Sequence[Any]) -> None:
        if rows:
            await connection.execute(
                delete(vector_chunks).where(vector_chunks.c.number.in_([row.number for row in rows]))
            )

    async def find_matches(self, connection: AsyncConnection, query: TermQuery) -> TermMatches:
        await connection.execute(_PLAN_BY_INDEX)
        values: dict[str, Any] = {
            "words": [self._prefix + term for term in query.terms],
            "owner": self._owner,
            "store_id": self._store_id,
            "all_chunks": query.corpus.chunks,
            "most": query.limit,
        }
        if query.files is not None:
            values["files"] = [*query.files]
        statement = _build_match_query(names_files=query.files is not None)
        rows = await fetch_rows(await connection.execute(statement, values))
        if not rows:
            return TermMatches({}, [])
        counts: Mapping[str, int] = orjson.loads(rows[0].counts)
        chunks = query.corpus.chunks
        return TermMatches({query.terms[int(place) - 1]: min(count, chunks) for place, count in counts.items()}, rows)


@cache
def _build_match_query(*, names_files: bool) -> Select[Any]:
    """Returns PostgreSQL's query for chunks by the weights of their terms: each term is looked up once, rows of chunks
    are read without their terms, and terms only of the best.

    It is the same for every store and any number of terms, because to build and compile it takes longer than to run it.
    """
    chunks = vector_chunks.c
    owner, store_id = bindparam("owner", type_=Text), bindparam("store_id", type_=Text)
    words = func.unnest(bindparam("words", type_=postgresql.ARRAY(Text)))
    places = words.table_valued(Column("word", Text), with_ordinality="place", name="places").render_derived()
    matches = (
        select(chunks.number, chunks.file_id, chunks.attempt)
        .where(
            # Other stores may have the same letters. An equation would let PostgreSQL read all chunks of the store, one
            # by one, before it has counted its rows.
            chunks.owner.is_not_distinct_from(owner),
            chunks.store_id.is_not_distinct_from(store_id),
            TermVector().operate(_MATCHES, func.to_tsquery("simple", places.c.word)),
        )
        .lateral("matches")
    )
    hits = select(places.c.place, *matches.c).select_from(places.join(matches, true())).cte("hits")
    all_chunks = bindparam("all_chunks", type_=BigInteger)
    count = func.least(func.count(), all_chunks)
    terms = (
        select(
            hits.c.place,
            func.count().label("chunks"),
            # Sums of such numbers do not depend on their order.
            cast(func.ln(1 + (all_chunks - count + 0.5) / (count + 0.5)), Numeric).label("weight"),
        )
        .group_by(hits.c.place)
        .cte("terms")
    )
    total = func.sum(terms.c.weight).label("weight")
    best = (
        select(hits.c.number, total)
        .join(terms, terms.c.place == hits.c.place)
        .where(_is_current(owner, store_id, hits.c.file_id, hits.c.attempt))
        .group_by(hits.c.number)
        .order_by(total.desc(), hits.c.number)
        .limit(bindparam("most", type_=Integer))
    )
    if names_files:
        files = bindparam("files", type_=postgresql.ARRAY(Text))
        best = best.where(hits.c.file_id == func.any(files))
    counts = select(cast(func.json_object_agg(terms.c.place, terms.c.chunks), Text)).scalar_subquery()
    chosen = best.subquery()
    return (
        select(*_MATCH_COLUMNS, counts.label("counts"))
        .join(chosen, chosen.c.number == chunks.number)
        .order_by(chosen.c.weight.desc(), chunks.number)
    )


def choose_term_index(owner: str, store_id: str, *, is_sqlite: bool) -> TermIndex:
    """Returns the index of a store for the kind of database."""
    return (SqliteTermIndex if is_sqlite else PostgresTermIndex)(owner, store_id)
