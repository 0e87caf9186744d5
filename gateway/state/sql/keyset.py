"""Parts of lists in SQL: by the columns they are ordered by, from the row that the last part ended with."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state.ids import is_valid_id
from gateway.state.store import PageRequest, UnknownCursor


def order_columns(page: PageRequest, order: Iterable[ColumnElement[Any]]) -> list[ColumnElement[Any]]:
    """The columns, as the page wants them ordered."""
    return [column.desc() if page.order == "desc" else column.asc() for column in order]


def build_cursor_condition(
    page: PageRequest, order: Sequence[ColumnElement[Any]], cursor: Sequence[Any]
) -> ColumnElement[bool]:
    """What comes after a row with these values."""
    place = tuple_(*order)
    return place < tuple_(*cursor) if page.order == "desc" else place > tuple_(*cursor)


async def load_cursor(connection: AsyncConnection, query: Any, after: str) -> Sequence[Any]:
    """The values of the row that a page begins after, which `query` finds. Raises UnknownCursor."""
    if not is_valid_id(after):
        raise UnknownCursor(after)
    found = await connection.execute(query)
    row: Sequence[Any] | None = found.one_or_none()
    if row is None:
        raise UnknownCursor(after)
    return row
