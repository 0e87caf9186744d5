"""The whole gateway without a socket: HTTP goes in and out of it, and to its upstream and back, by calls alone.

What is left of a request's CPU is Python and the event loop's turns, so that it can be measured on a busy machine.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import orjson
import uvicorn
import uvloop
from uvicorn.server import ServerState

from bench.answers import Model, find_fault, stream_writes, whole_reply
from dataplane.http_protocol import HttpProtocol
from gateway.config.settings import Settings
from gateway.http.guard import Drain
from gateway.process.app import create_app

_PATH: Final = "/v1/responses"


class _Transport(asyncio.Transport):
    """Gives what is written to whoever was named."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        super().__init__()
        self.write = take  # type: ignore[method-assign, assignment]
        self._closing = False

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True

    abort = close

    def pause_reading(self) -> None:
        """Nothing comes unasked for."""

    resume_reading = pause_reading

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing waits to be written."""


class _Upstream:
    """A chat server that answers with as many deltas as the model's name says, `a_read` of them at a time."""

    def __init__(self, protocol: asyncio.Protocol, a_read: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        self._a_read = a_read
        self._reads: dict[tuple[int, bool], list[bytes]] = {}

    def answer(self, request: bytes) -> None:
        asked = orjson.loads(request[request.index(b"\r\n\r\n") :])
        deltas, streamed = Model.named(asked["model"]).deltas, bool(asked.get("stream"))
        reads = self._reads.get((deltas, streamed))
        if reads is None:
            whole = stream_writes(deltas, False) if streamed else [whole_reply(deltas, False)]
            reads = self._reads[deltas, streamed] = [
                b"".join(whole[at : at + self._a_read]) for at in range(0, len(whole), self._a_read)
            ]
        self._loop.call_soon(self._play, reads, 0)

    def _play(self, reads: Sequence[bytes], at: int) -> None:
        self._protocol.data_received(reads[at])
        if at + 1 < len(reads):
            self._loop.call_soon(self._play, reads, at + 1)


class Loop(uvloop.Loop):
    """An event loop whose connections all lead to a model server in this process."""

    a_read = 1
    """How many of its deltas come in one read."""

    async def create_connection(  # type: ignore[override]  # what the gateway calls it with
        self, factory: Callable[[], asyncio.Protocol], *_: Any, **__: Any
    ) -> Any:
        protocol = factory()
        transport = _Transport(_Upstream(protocol, self.a_read).answer)
        protocol.connection_made(transport)
        return transport, protocol


class Client:
    """One connection to a gateway of its own. `ask` one question at a time."""

    def __init__(self, model: str, *, stream: bool) -> None:
        """`model` is one of `bench.answers.Model`."""
        settings = Settings.model_validate(
            {
                "store": {"url": None},
                "providers": {"upstream": {"type": "openai_compatible", "base_url": "http://127.0.0.1:9/v1"}},
                "models": {"*": {"provider": "upstream"}},
            }
        )
        config = uvicorn.Config(
            create_app(settings, Drain()), log_config=None, access_log=False, server_header=False, proxy_headers=False
        )
        config.load()
        self._protocol = HttpProtocol(config, ServerState(), {})
        self._protocol.connection_made(_Transport(self._receive))
        self._model, self._stream = Model.named(model), stream
        body = orjson.dumps({"model": model, "input": "Say the tokens.", "store": False, "stream": stream})
        head = (
            f"POST {_PATH} HTTP/1.1\r\nhost: here\r\ncontent-type: application/json\r\nauthorization: Bearer bench\r\n"
        )
        self._request = f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
        self._end = b"0\r\n\r\n" if stream else b"}"
        self._received: list[bytes] = []
        self._answered: asyncio.Future[None]

    async def ask(self) -> None:
        """A question and its whole answer."""
        self._received.clear()
        self._answered = asyncio.get_running_loop().create_future()
        self._protocol.data_received(self._request)
        await self._answered

    def check(self) -> None:
        """Raises RuntimeError where the last answer was not what the upstream said."""
        head, _, body = b"".join(self._received).partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"answered with {head!r} {body!r}")
        if self._stream:
            parts = body.split(b"\r\n")[1::2]
            body = b"".join(parts)
        if fault := find_fault(body, self._model, responses=True, streamed=self._stream):
            raise RuntimeError(fault)

    def _receive(self, data: bytes) -> None:
        self._received.append(data)
        if data.endswith(self._end):
            self._answered.set_result(None)


Cost = Callable[[Callable[[], Awaitable[object]], int], Awaitable[float]]
"""What µs a step takes, done so many times a round."""

_SHORT, _LONG = 4, 260


async def costs(cost: Cost, times: int) -> dict[str, float]:
    """What was done -> µs. Run it on a `Loop`."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Loop)
    ask = partial(_cost_of, cost)
    found = {
        "not streaming, over HTTP on both sides": await ask("bench-128", times, stream=False),
        "streamed, four deltas, over HTTP on both sides": (short := await ask(f"bench-{_SHORT}", times, stream=True)),
    }
    few = max(times // 20, 1)
    for a_read in (1, 16):
        loop.a_read = a_read
        of_short = short if a_read == 1 else await ask(f"bench-{_SHORT}", times, stream=True)
        long = await ask(f"bench-{_LONG}", few, stream=True)
        found[f"each further delta, {a_read} in a read"] = (long - of_short) / (_LONG - _SHORT)
    loop.a_read = 1
    return found


async def _cost_of(cost: Cost, model: str, times: int, *, stream: bool) -> float:
    client = Client(model, stream=stream)
    await client.ask()
    client.check()
    return await cost(client.ask, times)
