"""The index of terms of vector stores: an FTS5 table for each store on SQLite, a column with a GIN index on PostgreSQL.

A shared table would let one owner's words change the scores of another. Terms are ASCII letters and digits, so that no
sign of a text has a meaning to either index (`gateway/retrieval/terms.py`).
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from hashlib import md5
from typing import Any, Final, NamedTuple, Protocol

import orjson
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Integer,
    MetaData,
    Numeric,
    Select,
    Table,
    Text,
    bindparam,
    cast,
    delete,
    func,
    insert,
    or_,
    select,
    true,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import DDLElement, DropTable
from sqlalchemy.sql.compiler import DDLCompiler
from sqlalchemy.sql.operators import custom_op

from gateway.retrieval.embedding import Vector, build_signs, print_numbers
from gateway.retrieval.scoring import Corpus
from gateway.state.database.engines import get_driver
from gateway.state.database.sqlite_statements import CompiledStatement
from gateway.state.database.tables import TermVector, vector_chunks
from gateway.state.vectors.entries import is_current

_MATCHES: Final = custom_op[bool]("@@", is_comparison=True)

_NUMBERS_AT_ONCE: Final = 200
_SQLITE: Final = sqlite.dialect()

_LETTERS: Final = str.maketrans("0123456789", "ghijklmnop")

_PLANNING: Final = tuple(
    func.set_config(name, value, True)
    for name, value in (("enable_seqscan", "off"), ("jit", "off"), ("max_parallel_workers_per_gather", "0"))
)


class TermQuery(NamedTuple):
    """A search for the chunks of one store that have some of these terms, at most `limit`."""

    terms: Sequence[str]
    corpus: Corpus
    limit: int
    files: Sequence[str] | None = None
    """The files whose chunks count; None: those of all files of the store."""


class Match(NamedTuple):
    """A chunk that has terms of a query, by the number of its row. `terms` are its own, with blanks between them."""

    number: int
    file_id: str
    position: int
    terms: str


class TermMatches(NamedTuple):
    """What an index of terms found: how many chunks have each term, and the best chunks. Of some files the chunks are
    removed: they may be counted, but are no matches."""

    frequencies: Mapping[str, int]
    matches: Sequence[Match]


class TermIndex(Protocol):
    """The index of the terms of one store's chunks, within a transaction."""

    planning: Sequence[ColumnElement[str]]
    """What a statement has to select before `find_matches` in the same transaction, if anything. It changes how the
    rest of the transaction is planned."""

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


class _CreateTermTable(DDLElement):
    inherit_cache = False

    def __init__(self, name: str) -> None:
        self.name = name


@compiles(_CreateTermTable, "sqlite")
def _compile_term_table(element: _CreateTermTable, compiler: DDLCompiler, **_: object) -> str:
    # Contentless: the terms of a chunk are in its own row, from which they are deleted here.
    name = compiler.preparer.quote_identifier(element.name)
    return f"CREATE VIRTUAL TABLE {name} USING fts5(terms, content='', tokenize='ascii')"


_ANY_NAME: Final = "terms_of_store"
"""Stands for the name of the table of a store in statements that are compiled once for all stores."""


def _make_term_table(name: str) -> Table:
    return Table(name, MetaData(), Column("rowid", Integer), Column("terms", Text), Column(name, Text))


_any_table: Final = _make_term_table(_ANY_NAME)
_matches_any: Final = _any_table.c[_ANY_NAME].match(bindparam("terms", type_=Text))
_COUNT_MATCHES: Final = CompiledStatement(select(func.count()).select_from(_any_table).where(_matches_any))
_FIND_NUMBERS: Final = CompiledStatement(
    select(_any_table.c.rowid).where(_matches_any).order_by(func.bm25(_any_table.c[_ANY_NAME]))
)
_is_listed: Final = vector_chunks.c.number.in_(
    select(func.json_each(bindparam("numbers", type_=Text)).table_valued("value").c.value)
)
_FIND_CURRENT: Final = CompiledStatement(
    select(vector_chunks.c.number, vector_chunks.c.file_id, vector_chunks.c.position).where(
        _is_listed,
        is_current(
            bindparam("owner", type_=Text),
            bindparam("store_id", type_=Text),
            vector_chunks.c.file_id,
            vector_chunks.c.attempt,
        ),
    )
)
_LOAD_TERMS: Final = CompiledStatement(select(vector_chunks.c.number, vector_chunks.c.terms).where(_is_listed))


class SqliteTermIndex:
    """Implements `TermIndex` with a table of SQLite's extension FTS5."""

    planning: Sequence[ColumnElement[str]] = ()

    def __init__(self, owner: str, store_id: str) -> None:
        self._name = f"terms_{store_id}"
        self._table = _make_term_table(self._name)
        self._owner = owner
        self._store_id = store_id

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
        driver = get_driver(connection)
        return await driver.run_blocking(self._find_matches, driver.raw_connection, query)

    def _find_matches(self, connection: sqlite3.Connection, query: TermQuery) -> TermMatches:
        """Finds matches in the thread of the connection: all of it is one trip there."""
        counts = {term: self._execute(connection, _COUNT_MATCHES, terms=term).fetchone()[0] for term in query.terms}
        frequencies = {term: min(count, query.corpus.chunks) for term, count in counts.items() if count}
        if not frequencies:
            return TermMatches({}, [])
        best = list(self._iterate_current(connection, " OR ".join(frequencies), query))[: query.limit]
        rows = self._execute(connection, _LOAD_TERMS, numbers=_list_numbers([number for number, *_ in best]))
        terms = dict(rows.fetchall())
        return TermMatches(frequencies, [Match(*each, terms[each[0]]) for each in best])

    def _iterate_current(
        self, connection: sqlite3.Connection, terms: str, query: TermQuery
    ) -> Iterator[tuple[int, str, int]]:
        """Yields the best chunks of accepted files, best first, at least `limit` if there are so many.

        FTS5 orders all matches by itself, and only rows of chunks that are needed are read.
        """
        files = None if query.files is None else frozenset(query.files)
        matches = self._execute(connection, _FIND_NUMBERS, terms=terms)
        count = 0
        while count < query.limit and (numbers := [number for (number,) in matches.fetchmany(_NUMBERS_AT_ONCE)]):
            listed = _list_numbers(numbers)
            rows = self._execute(connection, _FIND_CURRENT, numbers=listed, owner=self._owner, store_id=self._store_id)
            current = {row[0]: row for row in rows.fetchall() if files is None or row[1] in files}
            best = [current[number] for number in numbers if number in current]
            count += len(best)
            yield from best

    def _execute(
        self, connection: sqlite3.Connection, statement: CompiledStatement, **parameters: str
    ) -> sqlite3.Cursor:
        text = statement.text.replace(_ANY_NAME, _quote_name(self._name))
        return connection.execute(text, statement.bind_parameters(parameters))


def _list_numbers(numbers: Sequence[int]) -> str:
    return orjson.dumps(numbers).decode()


def _quote_name(name: str) -> str:
    preparer: Any = _SQLITE.identifier_preparer
    quoted: str = preparer.quote_identifier(name)
    return quoted


_INSERT_CHUNK: Final = insert(vector_chunks).values(
    {
        **{
            name: bindparam(name)
            for name in ("owner", "store_id", "file_id", "attempt", "position", "fresh", "text", "terms")
        },
        # No list is sent: the driver would examine each element, which took longer than all else.
        "vector": func.array_to_tsvector(func.string_to_array(bindparam("terms", type_=Text), " ")),
        "embedding": cast(cast(bindparam("numbers", type_=Text), Text), postgresql.ARRAY(postgresql.REAL)),
    }
)


def _write_array(vector: Vector) -> str:
    """Returns the numbers of a vector as PostgreSQL reads an array."""
    return f"{{{print_numbers(vector)}}}"


class PostgresTermIndex:
    """Implements `TermIndex` with an index of an expression, `TermVector`."""

    planning: Sequence[ColumnElement[str]] = _PLANNING
    """PostgreSQL uses indexes, also of tables whose rows it has not counted, and neither compiles nor shares a query
    that takes milliseconds. It does not know how long it takes to read the terms of a row."""

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
        await connection.execute(
            _INSERT_CHUNK,
            [
                {
                    **row,
                    "numbers": None if row["embedding"] is None else _write_array(row["embedding"]),
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
        values: dict[str, Any] = {
            "words": [self._prefix + term for term in query.terms],
            "owner": self._owner,
            "store_id": self._store_id,
            "all_chunks": query.corpus.chunks,
            "most": query.limit,
            "files": None if query.files is None else [*query.files],
        }
        rows = (await connection.execute(_MATCH_QUERY, values)).all()
        if not rows:
            return TermMatches({}, [])
        counts: Mapping[str, int] = orjson.loads(rows[0][-1])
        chunks = query.corpus.chunks
        frequencies = {query.terms[int(place) - 1]: min(count, chunks) for place, count in counts.items()}
        return TermMatches(frequencies, [Match(*row[:-1]) for row in rows])


def _build_match_query() -> Select[Any]:
    """Returns PostgreSQL's query for chunks by the weights of their terms: each term is looked up once, rows of chunks
    are read without their terms, and terms only of the best.

    It is the same for every store and any number of terms and files, because to build and compile it takes longer than
    to run it. PostgreSQL plans it for the values of each execution.
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
    files = bindparam("files", type_=postgresql.ARRAY(Text))
    total = func.sum(terms.c.weight).label("weight")
    best = (
        select(hits.c.number, total)
        .join(terms, terms.c.place == hits.c.place)
        .where(
            is_current(owner, store_id, hits.c.file_id, hits.c.attempt),
            or_(files.is_(None), hits.c.file_id == func.any(files)),
        )
        .group_by(hits.c.number)
        .order_by(total.desc(), hits.c.number)
        .limit(bindparam("most", type_=Integer))
    )
    counts = select(cast(func.json_object_agg(terms.c.place, terms.c.chunks), Text)).scalar_subquery()
    chosen = best.subquery()
    return (
        select(chunks.number, chunks.file_id, chunks.position, chunks.terms, counts.label("counts"))
        .join(chosen, chosen.c.number == chunks.number)
        .order_by(chosen.c.weight.desc(), chunks.number)
    )


_MATCH_QUERY: Final = _build_match_query()


def choose_term_index(owner: str, store_id: str, *, is_sqlite: bool) -> TermIndex:
    """Returns the index of a store for the kind of database."""
    return (SqliteTermIndex if is_sqlite else PostgresTermIndex)(owner, store_id)
