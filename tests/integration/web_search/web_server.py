"""A web server on a loopback socket, which answers each path as a test says: search engines, and pages of the web."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import orjson


class WebRequest(NamedTuple):
    """A request that the server got. `query` has the first value of each parameter."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


@dataclass
class WebReply:
    """A reply. It ends when the connection does. With `stalls` the connection stays open."""

    body: bytes = b""
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    stalls: bool = False


def json_reply(body: Any, status: int = 200) -> WebReply:
    return WebReply(orjson.dumps(body), "application/json", status)


def redirect_to(url: str) -> WebReply:
    return WebReply(status=302, headers={"location": url})


class WebServer:
    """`replies` maps paths to replies, or to functions of the request that return one."""

    def __init__(self, replies: Mapping[str, WebReply | Callable[[WebRequest], WebReply]]) -> None:
        self.replies = dict(replies)
        self.requests: list[WebRequest] = []
        self.url = ""
        self.ended = 0
        """The number of connections that their clients closed while a reply stalled."""

    def requests_of(self, path: str) -> list[WebRequest]:
        return [request for request in self.requests if request.path == path]

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, target, _ = head[0].split(" ", 2)
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            parts = urlsplit(target)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            request = WebRequest(method, parts.path, query, headers, body)
            self.requests.append(request)
            found = self.replies.get(parts.path, WebReply(b"nothing here", status=404))
            reply = found if isinstance(found, WebReply) else found(request)
            lines = {"content-type": reply.content_type, "connection": "close", **reply.headers}
            text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
            writer.write(f"HTTP/1.1 {reply.status} X\r\n{text}\r\n".encode())
            writer.write(reply.body)
            await writer.drain()
            if reply.stalls:
                await reader.read()  # until the client closes the connection
                self.ended += 1
        except (ConnectionError, asyncio.IncompleteReadError):
            return  # the client has left
        finally:
            writer.close()


@asynccontextmanager
async def web_server(
    replies: Mapping[str, WebReply | Callable[[WebRequest], WebReply]],
) -> AsyncIterator[WebServer]:
    """Serves these paths until the block ends."""
    served = WebServer(replies)
    server = await asyncio.start_server(served.answer, "127.0.0.1", 0)
    served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield served
    finally:
        server.close()
