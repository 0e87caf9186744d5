"""bench/fleet/switching_proxy.py: it forwards to replicas that are ready."""

import asyncio
from contextlib import suppress

from bench.fleet.switching_proxy import SwitchingProxy
from tests.polling import wait_until


async def test_the_proxy_leaves_out_a_replica_that_is_not_ready() -> None:
    status = {"one": 200, "other": 200}

    async def start(name: str) -> asyncio.Server:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%b" % (status[name], len(name), name.encode()))
            writer.close()

        return await asyncio.start_server(answer, "127.0.0.1", 0)

    servers = {name: await start(name) for name in status}
    ports = {name: server.sockets[0].getsockname()[1] for name, server in servers.items()}
    proxy = SwitchingProxy([*ports.values()], probe_period_s=0.02)

    async def ask(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        reply = await reader.read()
        writer.close()
        return reply.rpartition(b"\r\n\r\n")[2]

    async with proxy.serve() as port:
        status["one"] = 503
        await wait_until(lambda: proxy.ready == {ports["other"]})
        assert [await ask(port) for _ in range(4)] == [b"other"] * 4
        status["other"] = 503
        await wait_until(lambda: not proxy.ready)
        with suppress(ConnectionError):
            assert await ask(port) == b""
        assert proxy.refused == 1
    for server in servers.values():
        server.close()
