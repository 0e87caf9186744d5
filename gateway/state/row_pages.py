"""Reads pages of stored JSON, no more bytes at once than one page may have. Heavy pages are parsed in threads."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, LargeBinary, Row, Select, cast, func
from sqlalchemy.ext.asyncio import AsyncConnection

from dataplane.body_weight import run_for_weight, weigh_documents
from gateway.state.row_values import parse_json
from gateway.state.values import Page, PageRequest
from translation.representation.json_types import Json


def measure_bytes(body: ColumnElement[str], *, is_sqlite: bool) -> ColumnElement[int]:
    """Returns the expression for the bytes of a text. Databases count its characters otherwise."""
    return func.length(cast(body, LargeBinary)) if is_sqlite else func.octet_length(body)


def _parse_row(row: Row[Any]) -> Json:
    return parse_json(row.body)


class PageRows(NamedTuple):
    """The rows of one page, in their order. `has_more` says whether rows follow the last one."""

    rows: Sequence[Row[Any]]
    has_more: bool


async def fetch_page_rows(
    connection: AsyncConnection,
    query: Select[Any],
    body: ColumnElement[str],
    page: PageRequest,
    max_bytes: int,
    *,
    other_bytes: ColumnElement[int] | None = None,
) -> PageRows:
    """Returns the first rows of a query with the texts of `body`: `page.limit` at most, and at least one.

    The sizes are asked for first, so that no more than `max_bytes` arrives here, unless one row alone has more.
    `other_bytes` are those of texts that belong to a row and are not in it.
    """
    size = measure_bytes(body, is_sqlite=connection.dialect.name == "sqlite")
    if other_bytes is not None:
        size += other_bytes
    sizes = query.with_only_columns(size, maintain_column_froms=True).limit(page.limit + 1)
    count, has_more = count_rows((await connection.scalars(sizes)).all(), page, max_bytes)
    return PageRows((await connection.execute(query.limit(count))).all(), has_more)


def count_rows(sizes: Sequence[int], page: PageRequest, max_bytes: int) -> tuple[int, bool]:
    """Returns how many rows of these sizes a page has, and whether others follow. `sizes` has one more than the page
    may have, if there are so many."""
    count = total = 0
    for size in sizes[: page.limit]:
        total += size
        if count and total > max_bytes and page.is_bounded:
            break
        count += 1
    return count, len(sizes) > count


async def parse_page(page_rows: PageRows, parse: Callable[[Row[Any]], Json] = _parse_row) -> Page:
    """Returns the page of the objects of rows whose JSON texts are their `body`."""
    bodies = [row.body for row in page_rows.rows]
    return await parse_rows(bodies, _parse_all, parse, page_rows.rows, has_more=page_rows.has_more)


async def parse_rows(
    documents: Sequence[str], parse: Callable[..., Sequence[Json]], *arguments: Any, has_more: bool
) -> Page:
    """Returns the page of what `parse` returns for these arguments. It goes through the documents: in a thread if they
    are heavy."""
    weight = weigh_documents(documents)
    return Page(await run_for_weight(weight, parse, *arguments), has_more, weight)


def _parse_all(parse: Callable[[Row[Any]], Json], rows: Sequence[Row[Any]]) -> list[Json]:
    return list(map(parse, rows))
