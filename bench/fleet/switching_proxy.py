"""A proxy in front of the replicas, as slow to notice a stop as those of a cluster: it asks `/readyz` now and then."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

_READ_BYTES: Final = 64 * 1024
_PROBE_S: Final = 5.0
"""Seconds after which a probe without a reply counts as failed."""

_SILENT_PROBES: Final = 3
"""Probes without a reply in a row after which a replica counts as not ready: it may only be busy."""


class SwitchingProxy:
    """Forwards each connection to the ready replica with the fewest connections. It knows nothing of requests.

    Like the services of a cluster it chooses once for a connection, so a client that ignores `connection: close` stays
    with a replica until that has closed the connection.
    """

    def __init__(self, ports: Sequence[int], probe_period_s: float) -> None:
        """`ports` are those of the replicas on this machine."""
        self.refused = 0
        """Connections that no replica accepted."""
        self.ready: set[int] = set()
        self._ports = ports
        self._period_s = probe_period_s
        self._connections = dict.fromkeys(ports, 0)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[int]:
        """Yields the port on which it forwards, once all replicas are ready."""
        server = await asyncio.start_server(self._forward, "127.0.0.1", 0)
        async with asyncio.TaskGroup() as tasks:
            probes = [tasks.create_task(self._probe(port)) for port in self._ports]
            try:
                await self.wait_until_ready(*self._ports)
                yield server.sockets[0].getsockname()[1]
            finally:
                server.close()
                for probe in probes:
                    probe.cancel()

    async def wait_until_ready(self, *ports: int) -> None:
        """Returns once the proxy sends connections to these replicas."""
        while not self.ready.issuperset(ports):  # noqa: ASYNC110  # replicas are only asked now and then
            await asyncio.sleep(self._period_s / 4)

    async def _probe(self, port: int) -> None:
        """Asks a replica for ever whether it is ready."""
        silent = 0
        while True:
            is_ready = await _ask_whether_ready(port)
            silent = silent + 1 if is_ready is None else 0
            if is_ready:
                self.ready.add(port)
            elif is_ready is False or silent == _SILENT_PROBES:
                self.ready.discard(port)
            await asyncio.sleep(self._period_s)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.ready:
            self.refused += 1
            writer.close()
            return
        port = min(self.ready, key=self._connections.__getitem__)
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            self.refused += 1
            writer.close()
            return
        self._connections[port] += 1
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_copy(reader, upstream_writer))
                tasks.create_task(_copy(upstream_reader, writer))
        finally:
            self._connections[port] -= 1


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copies until one side has closed, and closes the other."""
    with suppress(OSError):
        while data := await reader.read(_READ_BYTES):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _ask_whether_ready(port: int) -> bool | None:
    """Returns what a replica replies. None if it does not reply in time; False if its port is closed."""
    try:
        async with asyncio.timeout(_PROBE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                return (await reader.readline()).startswith(b"HTTP/1.1 200 ")
            finally:
                writer.close()
    except TimeoutError:
        return None
    except OSError:
        return False
