"""Runs the whole gateway without sockets: the bytes of HTTP to and from it are passed by calls, on both sides.

The CPU of a request is then spent by Python and the event loop alone, so that it can be measured on a busy machine.
"""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import orjson
import uvicorn
import uvloop
from uvicorn.server import ServerState

from bench.load.replies import Model, build_stream_writes, build_whole_reply, find_fault
from bench.load.requests import LoadSpec, build_request
from dataplane.http_protocol import HttpProtocol
from gateway.config.settings import Settings
from gateway.http.guard import DrainState
from gateway.logs import configure_logs
from gateway.process.app import create_app

_PATH: Final = "/v1/responses"


class _Transport(asyncio.Transport):
    """A transport that passes written bytes to a function."""

    def __init__(self, receive: Callable[[bytes], None]) -> None:
        super().__init__()
        self.write = receive  # type: ignore[method-assign, assignment]
        self._closing = False

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True

    abort = close

    def pause_reading(self) -> None:
        """Does nothing, because no bytes arrive without a request."""

    resume_reading = pause_reading

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Does nothing, because there is no write buffer."""


class _Upstream:
    """A chat server. The model's name gives the number of deltas, and `writes_per_read` of them arrive in one read."""

    def __init__(self, protocol: asyncio.Protocol, writes_per_read: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        self._writes_per_read = writes_per_read
        self._reads: dict[tuple[int, bool], list[bytes]] = {}

    def answer(self, request: bytes) -> None:
        body = orjson.loads(request[request.index(b"\r\n\r\n") :])
        deltas, streamed = Model.named(body["model"]).deltas, bool(body.get("stream"))
        reads = self._reads.get((deltas, streamed))
        if reads is None:
            whole = build_stream_writes(deltas, "chat") if streamed else [build_whole_reply(deltas, "chat")]
            reads = self._reads[deltas, streamed] = [
                b"".join(whole[at : at + self._writes_per_read]) for at in range(0, len(whole), self._writes_per_read)
            ]
        self._loop.call_soon(self._play, reads, 0)

    def _play(self, reads: Sequence[bytes], at: int) -> None:
        self._protocol.data_received(reads[at])
        if at + 1 < len(reads):
            self._loop.call_soon(self._play, reads, at + 1)


class UpstreamLoop(uvloop.Loop):
    """An event loop whose outgoing connections all lead to a model server in this process."""

    writes_per_read = 1
    """The number of deltas that arrive in one read."""

    async def create_connection(  # type: ignore[override]  # the arguments that the gateway uses
        self, factory: Callable[[], asyncio.Protocol], *_: Any, **__: Any
    ) -> Any:
        protocol = factory()
        transport = _Transport(_Upstream(protocol, self.writes_per_read).answer)
        protocol.connection_made(transport)
        return transport, protocol


class InProcessClient:
    """One connection to a gateway of its own. It sends one request at a time."""

    def __init__(
        self,
        model: str,
        *,
        stream: bool,
        path: str = _PATH,
        tools: int = 0,
        upstreams: int = 1,
        counts: bool = True,
        traces: dict[str, Any] | None = None,
    ) -> None:
        """`model` is a name in the form of `bench.load.replies.Model`, `path` the API of the requests.

        `tools` is the number of function tools that they declare, and `upstreams` that of the upstreams that share
        them. `counts` turns metrics on, and `traces` is the section for traces.
        """
        providers = {
            f"upstream_{number}": {
                "type": "openai_compatible",
                "base_url": f"http://127.0.0.1:{number + 9}/v1",
                "capabilities": {"models": False},  # the upstream here has no list
            }
            for number in range(upstreams)
        }
        rows = [{"provider": name} for name in providers]
        settings = Settings.model_validate(
            {
                "store": {"url": None},
                "providers": providers,
                "models": {"*": rows[0] if upstreams == 1 else {"upstreams": rows}},
                "metrics": {"enabled": counts},
                "tracing": traces,
            }
        )
        config = uvicorn.Config(
            create_app(settings, DrainState()),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
        )
        config.load()
        self._protocol = HttpProtocol(config, ServerState(), {})
        self._protocol.connection_made(_Transport(self._receive))
        self._model, self._stream = Model.named(model), stream
        spec = LoadSpec(80, path, model, stream, connections=1, seconds=0, tools=tools)
        self._dialect = spec.dialect
        self._request = build_request(spec, model)
        self._end = b"0\r\n\r\n" if stream else b"}"
        self._received: list[bytes] = []
        self._answered: asyncio.Future[None]

    async def ask(self) -> None:
        """Sends the request and waits for the whole answer."""
        self._received.clear()
        self._answered = asyncio.get_running_loop().create_future()
        self._protocol.data_received(self._request)
        await self._answered

    def check(self) -> None:
        """Raises RuntimeError if the last answer differs from the upstream's."""
        head, _, body = b"".join(self._received).partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"the gateway replied with {head!r} {body!r}")
        if self._stream:
            parts = body.split(b"\r\n")[1::2]
            body = b"".join(parts)
        if fault := find_fault(body, self._model, dialect=self._dialect, streamed=self._stream):
            raise RuntimeError(fault)

    def _receive(self, data: bytes) -> None:
        self._received.append(data)
        if data.endswith(self._end):
            self._answered.set_result(None)


CostMeter = Callable[[Callable[[], Awaitable[object]], int], Awaitable[float]]
"""Returns the µs of a step, which is run the given number of times per round."""

_SHORT, _LONG = 4, 260


@contextmanager
def run_upstream_loop() -> Iterator[asyncio.Runner]:
    """Opens a runner with an `UpstreamLoop`. Until the block ends, log lines are written to a pipe, as in a container,
    whose other end drops them."""
    # A thread would compete with the server for the interpreter.
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as reader:
        stderr, sys.stderr = sys.stderr, reader.stdin
        configure_logs()
        sys.stderr = stderr
        try:
            with asyncio.Runner(loop_factory=UpstreamLoop) as runner:
                yield runner
        finally:
            reader.kill()  # the log keeps the pipe open until the process ends


async def measure_http_steps(cost: CostMeter, times: int) -> dict[str, float]:
    """Returns the µs of each step by its description. It must run on an `UpstreamLoop`."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, UpstreamLoop)
    ask = partial(_measure_request_cost, cost)
    cost_by_step = {
        "not streaming, over HTTP on both sides": await ask("bench-128", times, stream=False),
        "streamed, four deltas, over HTTP on both sides": (short := await ask(f"bench-{_SHORT}", times, stream=True)),
    }
    few = max(times // 20, 1)
    for writes_per_read in (1, 16):
        loop.writes_per_read = writes_per_read
        short_us = short if writes_per_read == 1 else await ask(f"bench-{_SHORT}", times, stream=True)
        long = await ask(f"bench-{_LONG}", few, stream=True)
        cost_by_step[f"each further delta, {writes_per_read} in a read"] = (long - short_us) / (_LONG - _SHORT)
    loop.writes_per_read = 1
    return cost_by_step


async def _measure_request_cost(cost: CostMeter, model: str, times: int, *, stream: bool) -> float:
    client = InProcessClient(model, stream=stream)
    await client.ask()
    client.check()
    return await cost(client.ask, times)
