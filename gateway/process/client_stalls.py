"""Finds the clients that keep an impatient server from ending: they do not read what it sends, or do not send the rest
of a request."""

from asyncio import Transport
from collections.abc import Mapping
from typing import Final

STALL_LOOKS: Final = 70
"""The number of looks in a row without progress after which a client is stalled."""


class ClientStalls:
    """Counts how often in a row a connection was found waiting for its client without progress.

    It counts looks, not seconds: on a busy machine clients read late, and the server looks late for the same reason.
    """

    def __init__(self) -> None:
        self._seen: dict[Transport, tuple[int, int]] = {}
        """The bytes that each connection waited for at the last look, and the looks since they became fewer."""

    def find(self, waiting: Mapping[Transport, int]) -> list[Transport]:
        """Returns the connections of stalled clients. Called once per look.

        `waiting` has each connection that waits for its client, and the number of bytes that it waits for.
        """
        seen: dict[Transport, tuple[int, int]] = {}
        for transport, size in waiting.items():
            before, looks = self._seen.get(transport, (size, 0))
            seen[transport] = (size, 1 if size < before else looks + 1)
        self._seen = seen
        return [transport for transport, (_, looks) in seen.items() if looks >= STALL_LOOKS]
