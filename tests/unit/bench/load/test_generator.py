"""The load generator works with servers that close connections."""

import asyncio

from bench.load.generator import LoadClient, Result
from bench.load.replies import build_whole_reply
from bench.load.requests import LoadSpec


async def test_a_request_uses_a_new_connection_if_the_old_one_was_closed() -> None:
    connections = 0

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
        writer.write(build_whole_reply(4, "responses"))
        writer.close()

    async with asyncio.timeout(60), await asyncio.start_server(answer_once, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        spec = LoadSpec(port, "/v1/responses", "bench-4", stream=False, connections=1, seconds=0)
        loop = asyncio.get_running_loop()
        _, client = await loop.create_connection(lambda: LoadClient(spec, Result()), "127.0.0.1", port)
        await client.ask("bench-4")
        await client.closed.wait()
        await client.ask("bench-4")
        client.transport.abort()
    assert (client.result.requests, client.result.wrong, connections) == (2, [], 2)
