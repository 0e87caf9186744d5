"""The scenarios of the benchmark, and their targets."""

from dataclasses import dataclass, field
from typing import Literal

from bench.load.requests import HistoryShape, LoadSpec
from bench.servers.gateway import GatewaySetup

Measure = Literal["delta", "request", "item", "first delta", "delay", "stream"]
"""CPU per delta, per request, per item of the history, time to the first delta, time from the upstream's
write of a delta to its arrival, memory per open stream."""

_UNITS: dict[Measure, str] = {
    "delta": "µs/delta",
    "request": "µs/request",
    "item": "µs/item",
    "first delta": "ms",
    "delay": "ms",
    "stream": "KiB/stream",
}


@dataclass(frozen=True)
class Scenario:
    """One load and one figure.

    The targets are multiples of nginx's figure. With `absolute` they are limits in the figure's unit. `target` must be
    reached, `fast` is aimed at.
    """

    name: str
    measure: Measure
    path: str
    model: str
    connections: int
    target: float | None = None
    fast: float | None = None
    stream: bool = True
    absolute: bool = False
    history: HistoryShape = field(default_factory=HistoryShape)
    tools: int = 0
    """The number of tools that the request declares."""
    setup: GatewaySetup = field(default_factory=GatewaySetup)
    peers: bool = False
    """Whether `--peers` measures other routers and gateways in this scenario too."""
    default: bool = True
    """Whether a run without names includes it."""

    @property
    def unit(self) -> str:
        return _UNITS[self.measure]

    def spec(self, port: int, seconds: float) -> LoadSpec:
        """Returns the load for a server on `port`."""
        return LoadSpec(
            port=port,
            path=self.path,
            model=self.model,
            stream=self.stream,
            connections=self.connections,
            seconds=seconds,
            hold=self.measure == "stream",
            history=self.history,
            tools=self.tools,
        )


_RESPONSES = "/v1/responses"
_CHAT = "/v1/chat/completions"
_MESSAGES = "/v1/messages"
_OVER_RESPONSES = GatewaySetup(upstream="responses")

_SHARED = GatewaySetup(upstreams=3)

_IMAGES = HistoryShape(items=200, images=10, image_bytes=480_000)
_TEXTS = HistoryShape(items=200)
_AGENT = HistoryShape(items=500, scale=2)
_LONG_AGENT = HistoryShape(items=2000, scale=2)

_MAIN_SCENARIOS = (
    Scenario("translate", "delta", _RESPONSES, "bench-128", 64, 3.0, 1.3, peers=True),
    Scenario("translate, 12 tools", "delta", _RESPONSES, "bench-128", 64, 1.5, 1.1, tools=12),
    Scenario("translate, arguments", "delta", _RESPONSES, "bench-128-arguments", 64, 2.7, 1.5, tools=12),
    Scenario("translate, reasoning", "delta", _RESPONSES, "bench-128-reasoning", 64, 1.3, 1.1),
    Scenario("translate, 12 tools, 50 deltas/s", "delta", _RESPONSES, "bench-128-50ps", 64, 2.3, 1.6, tools=12),
    Scenario("relay chat, 12 tools", "delta", _CHAT, "bench-128", 64, 1.8, 1.0, tools=12),
    Scenario("translate Messages", "delta", _MESSAGES, "bench-128", 64, 3.0, 1.1),
    Scenario("translate Messages, 12 tools", "delta", _MESSAGES, "bench-128", 64, 1.5, 1.1, tools=12),
    Scenario("translate Messages, arguments", "delta", _MESSAGES, "bench-128-arguments", 64, 2.7, 1.5, tools=12),
    Scenario("translate Messages, reasoning", "delta", _MESSAGES, "bench-128-reasoning", 64, 1.3, 1.1),
    Scenario("translate back", "delta", _CHAT, "bench-128", 64, setup=_OVER_RESPONSES),
    Scenario("relay chat", "delta", _CHAT, "bench-128", 64, 5.0, 1.8, peers=True),
    Scenario("relay Responses", "delta", _RESPONSES, "bench-128", 64, setup=_OVER_RESPONSES),
    Scenario("translate, 50 deltas/s", "delta", _RESPONSES, "bench-128-50ps", 64, 3.0, 1.6, peers=True),
    Scenario("translate, not streaming", "request", _RESPONSES, "bench-128", 16, 35.0, 10.0, stream=False, peers=True),
    Scenario("translate, 4 deltas", "request", _RESPONSES, "bench-4", 16, 12.0, 4.5, peers=True),
    Scenario("translate, 10,000 deltas", "delta", _RESPONSES, "bench-10000", 16),
    Scenario(
        "first delta, one connection", "first delta", _RESPONSES, "bench-4", 1, 2.0, 0.7, absolute=True, peers=True
    ),
    Scenario("delay, 64 streams", "delay", _RESPONSES, "bench-128-50ps-stamped", 64, absolute=True),
    Scenario("memory, 256 open streams", "stream", _RESPONSES, "bench-600-1ps", 256, 90.0, 45.0, absolute=True),
    Scenario("history, 500 items", "request", _RESPONSES, "bench-4", 4, 4500.0, 3000.0, absolute=True, history=_AGENT),
    Scenario(
        "history, 2,000 items",
        "request",
        _RESPONSES,
        "bench-4",
        4,
        17500.0,
        11000.0,
        absolute=True,
        history=_LONG_AGENT,
    ),
    Scenario("history, 200 items, 5 MB", "item", _RESPONSES, "bench-4", 4, history=_IMAGES),
)

_FURTHER_SCENARIOS = (
    Scenario(
        "delay, full speed", "delay", _RESPONSES, "bench-128-stamped", 64, absolute=True, peers=True, default=False
    ),
    Scenario("delay, 1 stream", "delay", _RESPONSES, "bench-128-50ps-stamped", 1, absolute=True, default=False),
    Scenario("delay, 256 streams", "delay", _RESPONSES, "bench-128-50ps-stamped", 256, absolute=True, default=False),
    Scenario("history, 200 items of text", "item", _RESPONSES, "bench-4", 4, history=_TEXTS, default=False),
    # Three upstreams may cost 1.05 times what one does: compare with the scenarios without them.
    Scenario("three upstreams", "delta", _RESPONSES, "bench-128", 64, setup=_SHARED, default=False),
    Scenario(
        "three upstreams, not streaming",
        "request",
        _RESPONSES,
        "bench-128",
        16,
        stream=False,
        setup=_SHARED,
        default=False,
    ),
    Scenario("three upstreams, 4 deltas", "request", _RESPONSES, "bench-4", 16, setup=_SHARED, default=False),
    Scenario("keys", "delta", _RESPONSES, "bench-128", 64, setup=GatewaySetup(keys=True), default=False),
    Scenario("keys, 4 deltas", "request", _RESPONSES, "bench-4", 16, setup=GatewaySetup(keys=True), default=False),
    Scenario("two workers", "delta", _RESPONSES, "bench-128", 64, setup=GatewaySetup(workers=2), default=False),
    Scenario(
        "two workers, 50 deltas/s",
        "delta",
        _RESPONSES,
        "bench-128-50ps",
        64,
        setup=GatewaySetup(workers=2),
        default=False,
    ),
    Scenario("translate back, 50 deltas/s", "delta", _CHAT, "bench-128-50ps", 64, setup=_OVER_RESPONSES, default=False),
    Scenario("relay chat, 50 deltas/s", "delta", _CHAT, "bench-128-50ps", 64, default=False),
    Scenario(
        "relay Responses, 50 deltas/s", "delta", _RESPONSES, "bench-128-50ps", 64, setup=_OVER_RESPONSES, default=False
    ),
    Scenario("relay chat, not streaming", "request", _CHAT, "bench-128", 16, stream=False, default=False),
)

STREAMS = (1, 16, 64, 256, 1000)
"""The numbers of streams open at once in the scenarios `streams: …`, which show how the cost grows with them."""

_SCALED_SCENARIOS = tuple(
    Scenario(f"streams: {count:,}{paced}", "delta", _RESPONSES, model, count, default=False)
    for model, paced in (("bench-128", ", full speed"), ("bench-128-50ps", ", 50 deltas/s"))
    for count in STREAMS
)

SCENARIOS = (*_MAIN_SCENARIOS, *_FURTHER_SCENARIOS, *_SCALED_SCENARIOS)
