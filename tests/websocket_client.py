"""A client on a WebSocket, as strict as the protocol."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

Json = dict[str, Any]

PATIENCE_S = 60.0
_ENDS = {"response.completed", "response.incomplete", "response.failed", "error"}


class Talk:
    """One connection. Every received event is a JSON object in a text message."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def send(self, message: Json | str | bytes) -> None:
        await self.socket.send(json.dumps(message) if isinstance(message, dict) else message)

    async def create(self, **fields: Any) -> None:
        await self.send({"type": "response.create", "model": "some-model", "input": "Hello", **fields})

    async def read(self) -> Json:
        """The next event."""
        async with asyncio.timeout(PATIENCE_S):
            message = await self.socket.recv()
        assert isinstance(message, str)
        event = json.loads(message)
        assert isinstance(event, dict)
        return event

    async def read_to(self, kind: str) -> list[Json]:
        """Reads all events up to the first of this type."""
        events = [await self.read()]
        while events[-1]["type"] != kind:
            events.append(await self.read())
        return events

    async def read_turn(self) -> list[Json]:
        """Reads all events up to the end of a response."""
        events = [await self.read()]
        while events[-1]["type"] not in _ENDS:
            events.append(await self.read())
        return events

    async def turn(self, **fields: Any) -> list[Json]:
        """Sends a request, and reads to the end of its response."""
        await self.create(**fields)
        return await self.read_turn()

    async def response(self, **fields: Any) -> Json:
        """Sends a request, and returns the finished response."""
        last = (await self.turn(**fields))[-1]
        assert last["type"] == "response.completed", last
        response: Json = last["response"]
        return response

    async def error(self, **fields: Any) -> Json:
        """Sends a request, and returns the error that is its only reply."""
        (event,) = await self.turn(**fields)
        assert event["type"] == "error"
        return event

    async def closed(self) -> tuple[int, list[Json]]:
        """Reads until the server closes. Returns the code and the earlier messages."""
        events: list[Json] = []
        with suppress(ConnectionClosed):
            while True:
                events.append(await self.read())
        assert self.socket.close_code is not None
        return self.socket.close_code, events


@asynccontextmanager
async def talking(base_url: str, path: str = "/responses", **options: Any) -> AsyncIterator[Talk]:
    """Opens a connection. Raises InvalidStatus if it is refused."""
    url = base_url.replace("http://", "ws://") + path
    async with connect(url, proxy=None, max_size=None, open_timeout=PATIENCE_S, **options) as socket:
        yield Talk(socket)


def kinds(events: list[Json]) -> list[str]:
    return [event["type"] for event in events]


def text(response: Json) -> str:
    return "".join(part["text"] for item in response["output"] for part in item.get("content", ()))
