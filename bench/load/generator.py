"""The load generator: a bare protocol on uvloop that reads every answer to the end and compares its text.

It runs as a process with a LoadSpec as JSON in its first argument. It warms up, prints `ready`, waits for a line on
stdin, runs, and prints a Result as JSON. With `hold` it prints `holding` once every stream has begun, and closes all
streams at the next line.
"""

import asyncio
import json
import sys
from dataclasses import asdict, dataclass, field
from statistics import median
from time import perf_counter
from typing import cast

import httptools
import uvloop

from bench.load.replies import DELTA, END, FIRST_DELTA, Model, find_fault, parse_delays_s, parse_response_id
from bench.load.requests import LoadSpec, build_replay_request, build_request

_WARM_UP_MODEL = "bench-4"
_MAX_WRONG = 5
_GRACE_S = 150
"""The seconds after the end of a load after which it is abandoned, because the server does not answer."""


@dataclass
class Result:
    """The delivered answers and their times in seconds."""

    requests: int = 0
    deltas: int = 0
    elapsed: float = 0.0
    first_deltas: list[float] = field(default_factory=list)
    """The times from a request to the first delta of its answer. Only their median is printed."""
    ends: list[float] = field(default_factory=list)
    """The times from the last delta to the terminal event of a Responses stream. Only their percentiles are printed."""
    wholes: list[float] = field(default_factory=list)
    """The times from a request to the terminal event of a Responses stream, or to the end of an answer that is not
    streamed. Printed is only their median."""
    delays: list[float] = field(default_factory=list)
    """The times from the upstream's write of a stamped delta to its arrival. Only their percentiles are printed."""
    wrong: list[str] = field(default_factory=list)
    """Descriptions of the first few faulty answers."""


class LoadClient(asyncio.Protocol):
    """One connection that sends one request at a time."""

    transport: asyncio.Transport

    def __init__(self, spec: LoadSpec, result: Result) -> None:
        self._spec = spec
        self.result = result
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._answered: asyncio.Future[None] | None = None
        self._model = Model.named(spec.model)
        self._body: list[bytes] = []
        self._requests: dict[str, bytes] = {}
        self._stored_id: str | None = None
        self._sent_at = 0.0
        self._last_delta_at = 0.0
        self.begun = asyncio.Event()
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's transport class is not a subclass
        self._parser = httptools.HttpResponseParser(self)
        self.closed.clear()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()
        if self._answered and not self._answered.done():
            self._answered.set_exception(exc or ConnectionResetError("the server closed the connection"))

    def on_body(self, body: bytes) -> None:
        self._body.append(body)
        if not self.begun.is_set() and FIRST_DELTA in body:
            self.begun.set()
            self.result.first_deltas.append(perf_counter() - self._sent_at)
        if self._model.stamped:
            self.result.delays += parse_delays_s(body, perf_counter())
        if DELTA in body:
            self._last_delta_at = perf_counter()
        if END in body:
            now = perf_counter()
            self.result.ends.append(now - self._last_delta_at)
            self.result.wholes.append(now - self._sent_at)

    def on_message_complete(self) -> None:
        if not self._spec.stream:
            self.result.wholes.append(perf_counter() - self._sent_at)
        body = b"".join(self._body)
        status = self._parser.get_status_code()
        if status != 200:
            fault: str | None = f"status {status}: {body[:200]!r}"
        else:
            fault = find_fault(body, self._model, dialect=self._spec.dialect, streamed=self._spec.stream)
        if fault and len(self.result.wrong) < _MAX_WRONG:
            self.result.wrong.append(fault)
        if self._spec.resume and self._stored_id is None and not fault:
            self._stored_id = parse_response_id(body)
        self.result.requests += 1
        self.result.deltas += self._model.deltas
        if self._answered and not self._answered.done():
            self._answered.set_result(None)

    async def ask(self, model: str) -> None:
        """Sends one request and waits for the end of its answer.

        It connects again if the server has closed the connection, which it may do after a few idle seconds.
        """
        if self.transport.is_closing():
            await self._loop.create_connection(lambda: self, "127.0.0.1", self._spec.port)
        self.send(model)
        assert self._answered is not None
        await self._answered

    def send(self, model: str) -> None:
        self._answered = self._loop.create_future()
        self._model = Model.named(model)
        self._body.clear()
        self.begun.clear()
        content = self._request(model)
        self._sent_at = perf_counter()
        self.transport.write(content)

    def _request(self, model: str) -> bytes:
        if self._stored_id is not None:
            return build_replay_request(self._spec, self._stored_id)
        if model not in self._requests:
            self._requests[model] = build_request(self._spec, model)
        return self._requests[model]


async def send_load(spec: LoadSpec) -> Result:
    """Runs the load and returns its result. Raises TimeoutError if the server does not answer."""
    async with asyncio.timeout(spec.seconds + _GRACE_S):
        return await _send_load(spec)


async def _send_load(spec: LoadSpec) -> Result:
    loop = asyncio.get_running_loop()
    warm_up, result = Result(), Result()
    clients = [
        (await loop.create_connection(lambda: LoadClient(spec, warm_up), "127.0.0.1", spec.port))[1]
        for _ in range(spec.connections)
    ]
    if not spec.hold:
        await asyncio.gather(*(client.ask(spec.model if spec.resume else _WARM_UP_MODEL) for client in clients))
    await _signal_and_wait("ready")
    for client in clients:
        client.result = result
    started = perf_counter()
    if spec.hold:
        await _hold(spec, clients)
    else:
        model = Model.named(spec.model)
        # The starts are spread, because otherwise the deltas of paced streams would arrive together.
        pause = 1 / model.per_second if model.per_second else 0.0
        spread = pause * (model.deltas if spec.apart else 1) / len(clients)
        await asyncio.gather(
            *(
                _ask_until(spec, client, started + number * spread, started + spec.seconds)
                for number, client in enumerate(clients)
            )
        )
    result.elapsed = perf_counter() - started
    result.wrong += warm_up.wrong
    for client in clients:
        client.transport.abort()
    return result


async def _ask_until(spec: LoadSpec, client: LoadClient, start: float, deadline: float) -> None:
    await asyncio.sleep(start - perf_counter())
    await client.ask(spec.model)
    while perf_counter() < deadline:
        await client.ask(spec.model)


async def _hold(spec: LoadSpec, clients: list[LoadClient]) -> None:
    for client in clients:
        client.send(spec.model)
    await asyncio.gather(*(client.begun.wait() for client in clients))
    await _signal_and_wait("holding")


async def _signal_and_wait(word: str) -> None:
    """Prints a word for the process that started this one, and waits for a line from it."""
    print(word, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


def compute_percentiles(times: list[float]) -> list[float]:
    """Returns the median and the 95th percentile; an empty list for no times."""
    ranked = sorted(times)
    return [median(ranked), ranked[min(len(ranked) * 19 // 20, len(ranked) - 1)]] if ranked else []


def main() -> None:
    result = asdict(uvloop.run(send_load(LoadSpec.read(sys.argv[1]))))
    # The times of all requests in one line could exceed the buffer of the pipe.
    result["first_deltas"] = [median(result["first_deltas"])] if result["first_deltas"] else []
    result["wholes"] = [median(result["wholes"])] if result["wholes"] else []
    result["delays"] = compute_percentiles(result["delays"])
    result["ends"] = compute_percentiles(result["ends"])
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
