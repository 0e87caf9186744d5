"""Lists in parts: what a client may ask of one, and how it reads."""

from collections.abc import Collection
from typing import Final

from starlette.datastructures import QueryParams

from gateway.http import query_params as query_of
from gateway.state.store import Order, Page, PageRequest
from translation.errors import InvalidRequest
from translation.representation.json_types import Json

MAX_PAGE_SIZE: Final = 100
_ORDERS: Final[tuple[Order, ...]] = ("asc", "desc")


def parse_page_request(
    query: QueryParams, default_order: Order = "desc", *, extra_names: Collection[str] = ()
) -> PageRequest:
    """`after`, `limit` and `order`; parameters beside them and those in `also` are refused, as is every bad value."""
    query_of.check_param_names(query, {"after", "limit", "order", *extra_names})
    limit = query_of.parse_integer(query, "limit", minimum=1, maximum=MAX_PAGE_SIZE)
    order = query_of.single_value(query, "order")
    chosen = next((known for known in _ORDERS if known == order), None)
    if order is not None and chosen is None:
        raise InvalidRequest(f"Invalid value for 'order': '{order:.80}'. Expected 'asc' or 'desc'.", param="order")
    request = PageRequest(query_of.single_value(query, "after"), order=chosen or default_order)
    return request if limit is None else request._replace(limit=limit)


def unknown_cursor_error(page: PageRequest) -> InvalidRequest:
    """The answer to UnknownCursor."""
    return InvalidRequest(
        f"Invalid value for 'after': there is no '{page.after or '':.80}' in this list.", param="after"
    )


def render_list(page: Page) -> Json:
    """A page as both APIs show it. An empty one has empty ids: the official types allow no null."""
    rows = list(page.rows)
    return {
        "object": "list",
        "data": rows,
        "first_id": rows[0]["id"] if rows else "",
        "last_id": rows[-1]["id"] if rows else "",
        "has_more": page.has_more,
    }
