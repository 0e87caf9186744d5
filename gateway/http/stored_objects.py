"""Lists of stored objects, and unknown ids: parses the query parameters of lists, and builds the replies."""

from collections.abc import Awaitable, Callable, Collection
from typing import Final, TypeAlias, TypeVar

from starlette.datastructures import QueryParams
from starlette.responses import Response

from dataplane.body_weight import run_for_weight
from gateway.errors import NotFound
from gateway.http import query_params
from gateway.http.json_reply import JsonReply
from gateway.state.values import Order, Page, PageRequest, UnknownCursor
from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.representation.shared_tools import write_json

MAX_PAGE_SIZE: Final = 100
PageReader: TypeAlias = Callable[[PageRequest], Awaitable[Page]]

_ValueT = TypeVar("_ValueT")

_MAX_QUOTED_CHARS = 80

_ORDERS: Final[tuple[Order, ...]] = ("asc", "desc")


def parse_page_request(
    query: QueryParams,
    default_order: Order = "desc",
    *,
    extra_names: Collection[str] = (),
    max_limit: int = MAX_PAGE_SIZE,
    default_limit: int | None = None,
    has_before: bool = False,
) -> PageRequest:
    """Parses `after`, `limit` (1 to `max_limit`), `order`, and `before` if the list has it.

    Raises InvalidRequest for a bad value, and for any other parameter that is not in `extra_names`.
    """
    query_params.check_param_names(
        query, {"after", "limit", "order", *(["before"] if has_before else []), *extra_names}
    )
    limit = query_params.parse_integer(query, "limit", minimum=1, maximum=max_limit)
    order = query_params.read_single_value(query, "order")
    known_order = next((known for known in _ORDERS if known == order), None)
    if order is not None and known_order is None:
        raise InvalidRequest(f"Invalid value for 'order': '{order:.80}'. Expected 'asc' or 'desc'.", param="order")
    request = PageRequest(query_params.read_single_value(query, "after"), order=known_order or default_order)
    if has_before:
        request = request._replace(before=query_params.read_single_value(query, "before"))
    chosen_limit = default_limit if limit is None else limit
    return request if chosen_limit is None else request._replace(limit=chosen_limit)


def _build_unknown_cursor_error(page: PageRequest, unknown: UnknownCursor) -> InvalidRequest:
    """Returns the error for a request whose cursor is not in the list (the store raised UnknownCursor)."""
    cursor = page.before if unknown.param == "before" else page.after
    return InvalidRequest(
        f"Invalid value for '{unknown.param}': there is no '{cursor or '':.80}' in this list.", param=unknown.param
    )


def build_page_reply(
    page: Page, render_row: Callable[[Json], Json] | None = None, *, cursor_key: str = "id"
) -> Response:
    """Returns the reply with the list object of a page, which is the same in OpenAI's two APIs.

    `first_id` and `last_id` have the values of `cursor_key`. Those of an empty page are empty strings, because the
    official types do not allow null. Each row is written by itself: writing all at once would hold the interpreter's
    lock for as long.
    """
    rows = page.rows if render_row is None else list(map(render_row, page.rows))
    ends = {
        "first_id": rows[0][cursor_key] if rows else "",
        "last_id": rows[-1][cursor_key] if rows else "",
        "has_more": page.has_more,
    }
    data = b",".join(map(write_json, rows))
    return JsonReply(b'{"object":"list","data":[%b],%b' % (data, write_json(ends)[1:]), 200, {})


def require_found(value: _ValueT | None, kind: str, object_id: str) -> _ValueT:
    """Returns what a store returned for an id, unless that is None or, of a deletion, False.

    Raises NotFound if the id is unknown or belongs to another owner. Clients cannot tell which it is.
    """
    if value is None or value is False:
        raise NotFound(f"{kind} with id '{object_id:.{_MAX_QUOTED_CHARS}}' not found.")
    return value


def read_page_of(kind: str, object_id: str, read_page: Callable[[PageRequest], Awaitable[Page | None]]) -> PageReader:
    """Returns the reader of a list that belongs to an object.

    `read_page` returns None if there is no such object. The reader then raises NotFound.
    """

    async def read_existing(requested_page: PageRequest) -> Page:
        return require_found(await read_page(requested_page), kind, object_id)

    return read_existing


async def build_list_reply(
    requested_page: PageRequest,
    read_page: PageReader,
    render_row: Callable[[Json], Json] | None = None,
    *,
    cursor_key: str = "id",
) -> Response:
    """Returns the reply with one page of a list. `render_row` returns a row in the form in which the API lists it.

    Raises InvalidRequest if the cursor is not in the list.
    """
    try:
        page = await read_page(requested_page)
    except UnknownCursor as unknown:
        raise _build_unknown_cursor_error(requested_page, unknown) from None
    return await run_for_weight(page.weight, build_page_reply, page, render_row, cursor_key=cursor_key)
