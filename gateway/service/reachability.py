"""Whether the servers of providers accept connections, for `/readyz` and the home page.

A server is examined by a TCP connection that is closed at once: no request is sent, and no key. Nothing is examined
unless somebody asks, and then at most once in `server.reachability_s`.
"""

import asyncio
import socket
from collections.abc import Collection, Mapping
from time import monotonic
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import structlog

from gateway.config.settings import Settings
from providers.config import ProviderConfig

_log = structlog.get_logger(__name__)

_MAX_CONNECT_S: Final = 2.0
"""The longest time for one connection. Who asks waits for the first examination."""

_MAX_AT_ONCE: Final = 16

_PORTS: Final = {"http": 80, "https": 443}


class _ServerAddress(NamedTuple):
    host: str
    port: int
    connect_s: float


class UpstreamReachability:
    """The providers of one configuration whose servers do not accept connections.

    Providers without a server, such as embedded engines, are left out, and those with `transport: httpx`, which may use
    a proxy.
    """

    def __init__(self, settings: Settings) -> None:
        self._interval_s = settings.server.reachability_s
        addresses = {name: _find_address(config) for name, config in settings.providers.items()}
        self._addresses = {name: address for name, address in addresses.items() if address is not None}
        self._examination: asyncio.Task[None] | None = None
        self._examined_at: float | None = None
        self.problems: Mapping[str, str] = {}
        """Name of a provider that could not be reached when it was examined last -> the reason."""

    @property
    def examined_names(self) -> Collection[str]:
        """The providers whose servers have been examined."""
        return () if self._examined_at is None else self._addresses.keys()

    async def examine(self) -> Mapping[str, str]:
        """Returns the `problems`. Examines the servers first if they were never examined.

        If the last examination is old, the next one begins in the background.
        """
        if self._interval_s and self._addresses and self._is_due:
            self._examination = asyncio.get_running_loop().create_task(self._examine_all())
        if self._examination is not None and self._examined_at is None:
            await asyncio.wait({self._examination})
        return self.problems

    @property
    def _is_due(self) -> bool:
        if self._examination is not None and not self._examination.done():
            return False
        return self._examined_at is None or monotonic() - self._examined_at > self._interval_s

    async def _examine_all(self) -> None:
        turns = asyncio.Semaphore(_MAX_AT_ONCE)

        async def examine(address: _ServerAddress) -> str | None:
            async with turns:
                return await _find_problem(address)

        distinct = list(dict.fromkeys(self._addresses.values()))
        results = dict(zip(distinct, await asyncio.gather(*map(examine, distinct)), strict=True))
        problems = {
            name: problem for name, address in self._addresses.items() if (problem := results[address]) is not None
        }
        for name in problems.keys() - self.problems.keys():
            _log.warning("provider_unreachable", provider=name, why=problems[name])
        for name in self.problems.keys() - problems.keys():
            _log.info("provider_reachable", provider=name)
        self.problems, self._examined_at = problems, monotonic()


def _find_address(config: ProviderConfig) -> _ServerAddress | None:
    parts = urlsplit(config.base_url or "")
    if not parts.hostname or config.transport == "httpx":
        return None
    return _ServerAddress(parts.hostname, parts.port or _PORTS[parts.scheme], min(config.connect_s, _MAX_CONNECT_S))


async def _find_problem(address: _ServerAddress) -> str | None:
    """Returns why no connection can be established; None if one can. The text does not contain the address."""
    try:
        async with asyncio.timeout(address.connect_s):
            _, writer = await asyncio.open_connection(address.host, address.port)
    except TimeoutError:
        return f"it accepts no connection within {address.connect_s:g} s"
    except ConnectionRefusedError:
        return "it refuses connections: nothing listens at its address"
    except socket.gaierror:
        return "the name of its host cannot be resolved"
    except OSError as error:
        return f"it cannot be connected to: {error.strerror or type(error).__name__}"
    writer.transport.abort()
    return None
