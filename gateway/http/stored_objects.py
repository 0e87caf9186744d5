"""Lists of stored objects, and unknown ids: parses the query parameters of lists, and builds the replies."""

from collections.abc import Awaitable, Callable, Collection
from typing import Final, TypeAlias

from starlette.datastructures import QueryParams
from starlette.responses import Response

from gateway.errors import NotFound
from gateway.http import query_params
from gateway.http.json_reply import build_json_reply
from gateway.state.values import Order, Page, PageRequest, UnknownCursor
from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.responses.client.item_lists import to_listed_item

MAX_PAGE_SIZE: Final = 100
PageReader: TypeAlias = Callable[[PageRequest], Awaitable[Page | None]]

_MAX_QUOTED_CHARS = 80

_ORDERS: Final[tuple[Order, ...]] = ("asc", "desc")


def parse_page_request(
    query: QueryParams, default_order: Order = "desc", *, extra_names: Collection[str] = ()
) -> PageRequest:
    """Parses `after`, `limit` (1 to 100) and `order`.

    Raises InvalidRequest for a bad value, and for any other parameter that is not in `extra_names`.
    """
    query_params.check_param_names(query, {"after", "limit", "order", *extra_names})
    limit = query_params.parse_integer(query, "limit", minimum=1, maximum=MAX_PAGE_SIZE)
    order = query_params.read_single_value(query, "order")
    known_order = next((known for known in _ORDERS if known == order), None)
    if order is not None and known_order is None:
        raise InvalidRequest(f"Invalid value for 'order': '{order:.80}'. Expected 'asc' or 'desc'.", param="order")
    request = PageRequest(query_params.read_single_value(query, "after"), order=known_order or default_order)
    return request if limit is None else request._replace(limit=limit)


def _build_unknown_cursor_error(page: PageRequest) -> InvalidRequest:
    """Returns the error for a request whose `after` is not in the list (the store raised UnknownCursor)."""
    return InvalidRequest(
        f"Invalid value for 'after': there is no '{page.after or '':.80}' in this list.", param="after"
    )


def render_list(page: Page) -> Json:
    """Returns the list object of a page, which is the same in OpenAI's two APIs.

    `first_id` and `last_id` of an empty page are empty strings, because the official types do not allow null.
    """
    rows = list(page.rows)
    return {
        "object": "list",
        "data": rows,
        "first_id": rows[0]["id"] if rows else "",
        "last_id": rows[-1]["id"] if rows else "",
        "has_more": page.has_more,
    }


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
        raise _build_unknown_cursor_error(requested_page) from None
    if page is None:
        assert missing is not None
        raise missing
    return build_json_reply(render_list(page))
