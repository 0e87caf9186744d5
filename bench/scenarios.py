"""What is measured, and what the gateway must reach."""

from dataclasses import dataclass
from typing import Literal

from bench.load import Spec

Measure = Literal["delta", "request", "first delta", "stream"]
"""CPU per delta, CPU per request, time to the first delta, memory per open stream."""


@dataclass(frozen=True)
class Scenario:
    """One load and one figure. `target` is a multiple of nginx's figure, or where `absolute` a limit in `unit`."""

    name: str
    measure: Measure
    path: str
    model: str
    connections: int
    target: float
    stream: bool = True
    absolute: bool = False

    @property
    def unit(self) -> str:
        return {"delta": "µs/delta", "request": "µs/request", "first delta": "ms", "stream": "KiB/stream"}[self.measure]

    def spec(self, port: int, seconds: float) -> Spec:
        return Spec(
            port=port,
            path=self.path,
            model=self.model,
            stream=self.stream,
            connections=self.connections,
            seconds=seconds,
            hold=self.measure == "stream",
        )


_RESPONSES = "/v1/responses"
_CHAT = "/v1/chat/completions"

SCENARIOS = (
    Scenario("translate", "delta", _RESPONSES, "bench-128", 64, 3.0),
    Scenario("relay chat", "delta", _CHAT, "bench-128", 64, 5.0),
    Scenario("translate, 50 deltas/s", "delta", _RESPONSES, "bench-128-50ps", 64, 3.0),
    Scenario("translate, not streaming", "request", _RESPONSES, "bench-128", 16, 35.0, stream=False),
    Scenario("translate, 4 deltas", "request", _RESPONSES, "bench-4", 16, 12.0),
    Scenario("first delta, one connection", "first delta", _RESPONSES, "bench-4", 1, 2.0, absolute=True),
    Scenario("memory, 256 open streams", "stream", _RESPONSES, "bench-600-1ps", 256, 90.0, absolute=True),
)
