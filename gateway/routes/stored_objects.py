"""What the routes of kept objects share: how one that is not there is told, and how a list is."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from starlette.responses import Response

from gateway.errors import NotFound
from gateway.http.json_reply import build_json_reply
from gateway.http.paging import render_list, unknown_cursor_error
from gateway.state.store import Page, PageRequest, UnknownCursor
from translation.responses.item_lists import to_listed_item

PageReader: TypeAlias = Callable[[PageRequest], Awaitable[Page | None]]

_MAX_QUOTED_CHARS = 80


def not_found_error(kind: str, object_id: str) -> NotFound:
    """The answer for an id that is unknown, or another owner's: they are told apart by nobody."""
    return NotFound(f"{kind} with id '{object_id:.{_MAX_QUOTED_CHARS}}' not found.")


def read_public_items(read_page: PageReader) -> PageReader:
    """Reads items as the API lists them."""

    async def read_listed(requested_page: PageRequest) -> Page | None:
        page = await read_page(requested_page)
        return page and page._replace(rows=[to_listed_item(item) for item in page.rows])

    return read_listed


async def build_list_reply(
    requested_page: PageRequest, read_page: PageReader, missing: NotFound | None = None
) -> Response:
    """One part of a list. Raises InvalidRequest for a cursor that is not in it, `missing` where there is no list."""
    try:
        page = await read_page(requested_page)
    except UnknownCursor:
        raise unknown_cursor_error(requested_page) from None
    if page is None:
        assert missing is not None
        raise missing
    return build_json_reply(render_list(page))
