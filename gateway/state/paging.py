"""Pages of lists: requests and results."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from translation.representation.json_types import Json

Order: TypeAlias = Literal["asc", "desc"]


class PageRequest(NamedTuple):
    """The requested part of a list: at most `limit` rows, starting after the row whose id is `after`.

    Without `after`, the part starts with the first row in `order`.
    """

    after: str | None = None
    limit: int = 20
    order: Order = "desc"


class Page(NamedTuple):
    """One part of a list, in the order of its `PageRequest`. `has_more` says whether rows follow the last one."""

    rows: Sequence[Json]
    has_more: bool


class UnknownCursor(Exception):
    """The list has no row with the id in `PageRequest.after`."""
