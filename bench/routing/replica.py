"""A fake replica of a model server: streams numbered words, and has a prefix cache and a time for each uncached block.

`python -m bench.routing.replica PORT` serves until it is killed. SIGUSR1 makes it slow, SIGUSR2 fast again.
"""

import asyncio
import json
import signal
import sys
from collections import OrderedDict
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final

BLOCK_CHARS: Final = 256
_CACHED_BLOCKS: Final = 1200
_BASE_S: Final = 0.004
_BLOCK_S: Final = 0.0008
"""Seconds of prefill for a block that is not cached. A replica works on one prompt at a time."""
_WORD_S: Final = 0.005
_SLOW_FACTOR: Final = 200.0

_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nx-request-id: replica\r\n\r\n"
)


class Replica:
    """The state of one replica."""

    def __init__(self) -> None:
        self._cache: OrderedDict[bytes, None] = OrderedDict()
        self._prefill = asyncio.Lock()
        self.factor = 1.0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (body := await _read_request(reader)) is not None:
                await self._answer(body, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the gateway has closed the connection
        finally:
            writer.close()

    async def _answer(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        prompt = "".join(str(message.get("content")) for message in body.get("messages", ()))
        blocks = list(_hash_blocks(prompt))
        async with self._prefill:
            cached = self._match(blocks)
            await asyncio.sleep((_BASE_S + _BLOCK_S * (len(blocks) - cached)) * self.factor)
        writer.write(_HEAD)
        words = int(body.get("max_tokens") or body.get("max_completion_tokens") or 8)
        for number in range(words):
            writer.write(_frame({"choices": [{"index": 0, "delta": {"content": f"{number} "}}]}))
            await writer.drain()
            await asyncio.sleep(_WORD_S * self.factor)
        usage = {
            "prompt_tokens": len(blocks),
            "completion_tokens": words,
            "total_tokens": len(blocks) + words,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        writer.write(_frame({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
        writer.write(_frame({"choices": [], "usage": usage}) + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        await writer.drain()

    def _match(self, blocks: list[bytes]) -> int:
        """Returns how many leading blocks are cached, and caches all of them."""
        cached = next((place for place, block in enumerate(blocks) if block not in self._cache), len(blocks))
        for block in blocks:
            self._cache[block] = None
            self._cache.move_to_end(block)
        while len(self._cache) > _CACHED_BLOCKS:
            self._cache.popitem(last=False)
        return cached


async def _read_request(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Returns the body of the next request; None at the end of the connection. A list of models is refused."""
    head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    if not head:
        return None
    length = next(
        (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
    )
    body: dict[str, Any] = json.loads(await reader.readexactly(length)) if length else {}
    return body


def _hash_blocks(prompt: str) -> Iterator[bytes]:
    digest = blake2b(digest_size=8)
    for start in range(0, len(prompt) - BLOCK_CHARS + 1, BLOCK_CHARS):
        digest.update(prompt[start : start + BLOCK_CHARS].encode())
        yield digest.digest()


def _frame(chunk: dict[str, Any]) -> bytes:
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", **chunk}
    return _chunk(b"data: " + json.dumps(chunk).encode() + b"\n\n")


def _chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)


async def main(port: int) -> None:
    replica, loop = Replica(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, setattr, replica, "factor", _SLOW_FACTOR)
    loop.add_signal_handler(signal.SIGUSR2, setattr, replica, "factor", 1.0)
    server = await asyncio.start_server(replica.serve, "127.0.0.1", port)
    async with server:
        print("listening", flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
