"""Keyset pagination in SQL: a page continues after a row, result by the values of the columns that order the list."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state.ids import is_valid_id
from gateway.state.paging import PageRequest, UnknownCursor


def order_columns(page: PageRequest, order: Iterable[ColumnElement[Any]]) -> list[ColumnElement[Any]]:
    """Return the columns with the direction of the page."""
    return [column.desc() if page.order == "desc" else column.asc() for column in order]


def build_cursor_condition(
    page: PageRequest, order: Sequence[ColumnElement[Any]], cursor: Sequence[Any]
) -> ColumnElement[bool]:
    """Return the condition for rows after the row whose ordering columns have the values `cursor`."""
    sort_key = tuple_(*order)
    return sort_key < tuple_(*cursor) if page.order == "desc" else sort_key > tuple_(*cursor)


async def load_cursor(connection: AsyncConnection, query: Any, after: str) -> Sequence[Any]:
    """Return the values of the row that a page starts after. `query` selects them; `after` is the row's id. Raises
    UnknownCursor if there is no such row."""
    if not is_valid_id(after):
        raise UnknownCursor(after)
    result = await connection.execute(query)
    row: Sequence[Any] | None = result.one_or_none()
    if row is None:
        raise UnknownCursor(after)
    return row
