"""What the routes of kept objects share: how one that is not there is told, and how a list is."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from starlette.responses import Response

from gateway.errors import NotFound
from gateway.http.json_reply import json_answer
from gateway.http.paging import list_object, unknown_cursor
from gateway.state.store import Page, PageRequest, UnknownCursor
from translation.responses.item_lists import listed

Read: TypeAlias = Callable[[PageRequest], Awaitable[Page | None]]

_MAX_QUOTED = 80


def not_found(kind: str, object_id: str) -> NotFound:
    """The answer for an id that is unknown, or another owner's: they are told apart by nobody."""
    return NotFound(f"{kind} with id '{object_id:.{_MAX_QUOTED}}' not found.")


def listing(read: Read) -> Read:
    """Reads items as the API lists them."""

    async def read_listed(asked: PageRequest) -> Page | None:
        page = await read(asked)
        return page and page._replace(rows=[listed(item) for item in page.rows])

    return read_listed


async def list_answer(asked: PageRequest, read: Read, missing: NotFound | None = None) -> Response:
    """One part of a list. Raises InvalidRequest for a cursor that is not in it, `missing` where there is no list."""
    try:
        page = await read(asked)
    except UnknownCursor:
        raise unknown_cursor(asked) from None
    if page is None:
        assert missing is not None
        raise missing
    return json_answer(list_object(page))
