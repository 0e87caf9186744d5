"""Counts the open requests and WebSockets of each owner in this process, up to a limit."""

from collections.abc import Callable
from functools import partial
from typing import Final

from starlette.types import Scope

from dataplane.http_protocol import call_when_read
from gateway.errors import GatewayError
from gateway.http.auth import ANONYMOUS

ON_END: Final = "gateway.on_end"
"""Scope key of a function that the request middleware calls when the request has ended."""


class OwnerCounts:
    """The open requests, or connections, of each owner.

    Without API keys all clients are one owner, because they cannot be told apart. The limit does not apply to it.
    """

    def __init__(self, limit: int, make_error: Callable[[int], GatewayError]) -> None:
        """`make_error` builds the error for an owner that has reached `limit`."""
        self._limit = limit
        self._make_error = make_error
        self._counts: dict[str, int] = {}

    def add(self, owner: str, own_limit: int | None = None) -> None:
        """Counts one more. Raises the error of `make_error` at the limit, or at `own_limit` if the key has one."""
        count = self._counts.get(owner, 0)
        limit = self._limit if own_limit is None else own_limit
        if count >= limit and owner != ANONYMOUS.owner:
            raise self._make_error(limit)
        self._counts[owner] = count + 1

    def remove(self, owner: str) -> None:
        """Counts one less."""
        if (count := self._counts[owner] - 1) > 0:
            self._counts[owner] = count
        else:
            del self._counts[owner]

    def add_until_end(self, owner: str, scope: Scope, own_limit: int | None = None) -> None:
        """Counts a request until its client has read the reply. A request that is authenticated twice counts once.

        Raises like `add`.
        """
        if owner != ANONYMOUS.owner and ON_END not in scope:
            self.add(owner, own_limit)
            scope[ON_END] = partial(call_when_read, scope, partial(self.remove, owner))
