"""Replies that the routes of stored objects share: unknown ids and lists."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from starlette.responses import Response

from gateway.errors import NotFound
from gateway.http.json_reply import build_json_reply
from gateway.http.paging import build_unknown_cursor_error, render_list
from gateway.state.values import Page, PageRequest, UnknownCursor
from translation.responses.client.item_lists import to_listed_item

PageReader: TypeAlias = Callable[[PageRequest], Awaitable[Page | None]]

_MAX_QUOTED_CHARS = 80


def build_not_found_error(kind: str, object_id: str) -> NotFound:
    """Returns the error for an id that is unknown or belongs to another owner. Clients cannot tell which it is."""
    return NotFound(f"{kind} with id '{object_id:.{_MAX_QUOTED_CHARS}}' not found.")


def read_public_items(read_page: PageReader) -> PageReader:
    """Wraps `read_page` so that its items have the form in which the API lists them."""

    async def read_listed(requested_page: PageRequest) -> Page | None:
        page = await read_page(requested_page)
        return page and page._replace(rows=[to_listed_item(item) for item in page.rows])

    return read_listed


async def build_list_reply(
    requested_page: PageRequest, read_page: PageReader, missing: NotFound | None = None
) -> Response:
    """Returns the reply with one page of a list.

    Raises InvalidRequest if the cursor is not in the list, and `missing` if `read_page` returns None.
    """
    try:
        page = await read_page(requested_page)
    except UnknownCursor:
        raise build_unknown_cursor_error(requested_page) from None
    if page is None:
        assert missing is not None
        raise missing
    return build_json_reply(render_list(page))
