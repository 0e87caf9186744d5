"""Rows and pages of stored responses."""

from typing import Any

from gateway.state.sql.store import SqlStore
from gateway.state.values import PageRequest


async def pages(store: SqlStore, **how: Any) -> list[str]:
    """Returns every id of the list, read page by page."""
    ids: list[str] = []
    after = None
    while True:
        page = await store.responses.list_responses("ann", PageRequest(after=after, **how))
        ids += [row["id"] for row in page.rows]
        if not page.has_more:
            return ids
        after = ids[-1]
