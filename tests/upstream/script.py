"""The scripts of the scripted upstream: replies as data, down to single bytes and broken connections.

Knows the framing of HTTP/1.1 bodies and nothing of any dialect; `builders` knows those.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Literal, Protocol, assert_never

from .request import Request


class Exchange(Protocol):
    """One request and its connection, as a script sees them."""

    request: Request

    async def send(self, raw: bytes) -> None:
        """Writes bytes unchanged. Waits while the peer does not read; raises ConnectionError once it has left."""

    async def flush(self) -> None:
        """Waits until all written data has been passed to the kernel."""

    def reset(self) -> None:
        """Ends the connection with an RST."""

    def close(self) -> None:
        """Ends the connection cleanly."""


Script = Callable[[Exchange], Awaitable[None]]
"""Anything that answers one request. A `Reply` is one; a coroutine function is another."""


@dataclass(frozen=True)
class Pause:
    """Sends nothing until the test sets the event."""

    until: asyncio.Event


@dataclass(frozen=True)
class Reset:
    """Breaks the connection with an RST, after all data before it was sent."""


@dataclass(frozen=True)
class Close:
    """Ends the connection cleanly, without the end of the body."""


@dataclass(frozen=True)
class Hang:
    """Sends nothing until the peer closes."""


@dataclass(frozen=True)
class Drip:
    """Sends `size` bytes at a time, `per` seconds apart. With 0 the loop still turns between two."""

    content: bytes
    per: float = 0.0
    size: int = 1


@dataclass(frozen=True)
class Repeat:
    """Sends the same bytes many times, without holding them all in memory."""

    content: bytes
    times: int


@dataclass(frozen=True)
class Raw:
    """Sends bytes outside the body's framing, for example a false chunk size."""

    content: bytes


Step = bytes | Pause | Reset | Close | Hang | Drip | Repeat | Raw
Framing = Literal["chunked", "length", "close"]

_BURST = 65_536
"""The bytes of one write of a `Repeat`: large enough to be fast, small enough for back-pressure."""


@dataclass(frozen=True)
class Reply:
    """An HTTP reply as data. Call it with an exchange and it plays itself.

    `body` is bytes or a list of steps. `framing` says how the body's end is told; with "length", `content_length`
    replaces the true length, so that it can lie. `headers` come after the framing header and may repeat a name.
    """

    status: int = 200
    headers: Mapping[str, str] | Sequence[tuple[str, str]] = field(default_factory=dict)
    body: bytes | Sequence[Step] = b""
    framing: Framing = "chunked"
    content_length: int | None = None

    async def __call__(self, exchange: Exchange) -> None:
        steps = [self.body] if isinstance(self.body, bytes) else self.body
        await exchange.send(self._head(steps))
        for step in steps:
            if not await _play(step, exchange, self._frame):
                return
        if self.framing == "chunked":
            await exchange.send(b"0\r\n\r\n")
        elif self.framing == "close":
            exchange.close()

    def _head(self, steps: Sequence[Step]) -> bytes:
        headers = list(self.headers.items() if isinstance(self.headers, Mapping) else self.headers)
        match self.framing:
            case "chunked":
                headers.insert(0, ("transfer-encoding", "chunked"))
            case "length":
                length = sum(map(_length, steps)) if self.content_length is None else self.content_length
                headers.insert(0, ("content-length", str(length)))
            case "close":
                headers.insert(0, ("connection", "close"))
        lines = [f"HTTP/1.1 {self.status} {_phrase(self.status)}", *(f"{name}: {value}" for name, value in headers)]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def _frame(self, content: bytes) -> bytes:
        # An empty chunk would end the body.
        return b"%x\r\n%b\r\n" % (len(content), content) if self.framing == "chunked" and content else content


async def silence(exchange: Exchange) -> None:
    """Accepts the request, and never replies, not even with headers."""
    await exchange.request.closed


async def reset(exchange: Exchange) -> None:
    """Breaks the connection instead of sending headers."""
    exchange.reset()


async def no_http(exchange: Exchange) -> None:
    """Replies in another protocol."""
    await exchange.send(b"\x00\xff\x13 this is not HTTP\r\n\r\n")
    exchange.close()


async def _play(step: Step, exchange: Exchange, frame: Callable[[bytes], bytes]) -> bool:
    """Runs one step. Returns False if it ended the connection."""
    match step:
        case bytes():
            await exchange.send(frame(step))
        case Raw(content):
            await exchange.send(content)
        case Drip(content, per, size):
            for start in range(0, len(content), size):
                await exchange.send(frame(content[start : start + size]))
                await asyncio.sleep(per)  # the pace is part of the script
        case Repeat(content, times):
            burst = max(1, _BURST // len(content))
            for sent in range(0, times, burst):
                await exchange.send(frame(content * min(burst, times - sent)))
        case Pause(until):
            await until.wait()
        case Hang():
            await exchange.request.closed
            return False
        case Reset():
            await exchange.flush()
            exchange.reset()
            return False
        case Close():
            exchange.close()
            return False
        case _:
            assert_never(step)
    return True


def _length(step: Step) -> int:
    match step:
        case bytes():
            return len(step)
        case Drip(content):
            return len(content)
        case Repeat(content, times):
            return len(content) * times
        case _:
            return 0


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unassigned"  # 529, which Anthropic sends when overloaded, is in no standard
