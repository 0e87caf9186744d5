"""Pagination of list endpoints: parses its query parameters, and renders a page."""

from collections.abc import Collection
from typing import Final

from starlette.datastructures import QueryParams

from gateway.http import query_params
from gateway.state.values import Order, Page, PageRequest
from translation.errors import InvalidRequest
from translation.representation.json_types import Json

MAX_PAGE_SIZE: Final = 100
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


def build_unknown_cursor_error(page: PageRequest) -> InvalidRequest:
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
