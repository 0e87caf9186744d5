"""The index of terms of vector stores: an FTS5 table for each store on SQLite, a column with a GIN index on PostgreSQL.

A shared table would let one owner's words change the scores of another. Terms are ASCII letters and digits, so that no
sign of a text has a meaning to either index (`gateway/retrieval/terms.py`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from sqlalchemy import (
    Column,
    ColumnElement,
    Float,
    Integer,
    MetaData,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal,
    select,
    union_all,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import DDLElement, DropTable
from sqlalchemy.sql.compiler import DDLCompiler
from sqlalchemy.sql.operators import custom_op

from gateway.retrieval.embedding import build_signs, unpack_vector
from gateway.state.database.tables import vector_chunks

_MATCHES: Final = custom_op[bool]("@@", is_comparison=True)


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

    def count_matches(self, term: str) -> Select[int]:
        """Returns the query for how many chunks have a term."""
        ...

    def select_candidates(
        self, columns: Sequence[ColumnElement[Any]], weights: Mapping[str, float], limit: int
    ) -> Select[Any]:
        """Returns the query for the chunks with the best matches of weighted terms, at most `limit`, best first.

        More conditions may be added to it.
        """
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


class SqliteTermIndex:
    """Implements `TermIndex` with a table of SQLite's extension FTS5."""

    def __init__(self, owner: str, store_id: str) -> None:
        self._name = f"terms_{store_id}"
        self._table = Table(
            self._name, MetaData(), Column("rowid", Integer), Column("terms", Text), Column(self._name, Text)
        )
        self._whole: ColumnElement[str] = self._table.c[self._name]
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

    def count_matches(self, term: str) -> Select[int]:
        return select(func.count()).select_from(self._table).where(self._whole.match(term))

    def select_candidates(
        self, columns: Sequence[ColumnElement[Any]], weights: Mapping[str, float], limit: int
    ) -> Select[Any]:
        return (
            select(*columns)
            .select_from(self._table)
            .join(vector_chunks, vector_chunks.c.number == self._table.c.rowid)
            .where(self._whole.match(" OR ".join(weights)), self._is_own)
            .order_by(func.bm25(self._whole))
            .limit(limit)
        )


class PostgresTermIndex:
    """Implements `TermIndex` with the column `vector` of the chunks."""

    def __init__(self, owner: str, store_id: str) -> None:
        self._is_own = and_(vector_chunks.c.owner == owner, vector_chunks.c.store_id == store_id)

    async def create(self, connection: AsyncConnection) -> None:
        """Does nothing: all stores share the column."""

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

    def count_matches(self, term: str) -> Select[int]:
        return select(func.count()).select_from(vector_chunks).where(self._is_own, _has_term(term))

    def select_candidates(
        self, columns: Sequence[ColumnElement[Any]], weights: Mapping[str, float], limit: int
    ) -> Select[Any]:
        # Each term is looked up in the index, which alone says who has it: to read the terms of a row takes long.
        hits = union_all(
            *(
                select(vector_chunks.c.number, literal(weight, Float).label("weight")).where(
                    self._is_own, _has_term(term)
                )
                for term, weight in weights.items()
            )
        ).subquery()
        totals = select(hits.c.number, func.sum(hits.c.weight).label("weight")).group_by(hits.c.number).subquery()
        return (
            select(*columns)
            .select_from(totals)
            .join(vector_chunks, vector_chunks.c.number == totals.c.number)
            .order_by(totals.c.weight.desc(), vector_chunks.c.number)
            .limit(limit)
        )


def _has_term(term: str) -> ColumnElement[bool]:
    return vector_chunks.c.vector.operate(_MATCHES, func.to_tsquery("simple", term))


def choose_term_index(owner: str, store_id: str, *, is_sqlite: bool) -> TermIndex:
    """Returns the index of a store for the kind of database."""
    return (SqliteTermIndex if is_sqlite else PostgresTermIndex)(owner, store_id)
