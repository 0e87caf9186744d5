"""Measures what traces add to a short request: `python -m bench.in_process.price_of_traces`.

The whole server runs without sockets, with traces of a share of the requests and without traces, in alternating blocks
of requests. Its collector cannot be reached, so that all spans are built, queued and dropped.
"""

import sys
from collections.abc import Sequence
from typing import Any, Final

from bench.in_process.bytecodes import compare_bytecodes
from bench.in_process.no_sockets import InProcessClient, run_upstream_loop
from bench.in_process.price_of_metrics import compare

_SCENARIOS: Final = {"not streaming": ("bench-128", False), "4 deltas": ("bench-4", True)}

_SHARES: Final = (0.0, 0.01, 1.0)


async def measure_price(model: str, *, stream: bool, sample: float, blocks: int, requests: int) -> float:
    """Returns the CPU of a request with traces of this share of requests, as a multiple of one without traces.

    It must run on an `UpstreamLoop`.
    """
    return await compare(_build_clients(model, stream=stream, sample=sample), blocks, requests)


def _build_clients(model: str, *, stream: bool, sample: float) -> Sequence[InProcessClient]:
    """Returns a client with traces of this share of requests, and one without traces."""
    traces: dict[str, Any] = {"endpoint": "http://127.0.0.1:9", "sample": sample}
    return [InProcessClient(model, stream=stream, traces=section) for section in (traces, None)]


async def _print_ratios() -> None:
    for name, (model, stream) in _SCENARIOS.items():
        for sample in _SHARES:
            clients = _build_clients(model, stream=stream, sample=sample)
            counts = await compare_bytecodes(clients)
            print(f"{counts} bytecodes, with traces and without: a request, {name}, sampled {sample:.0%}")
            ratio = await measure_price(model, stream=stream, sample=sample, blocks=100, requests=60)
            print(f"{ratio:7.3f} x without traces: a request, {name}, sampled {sample:.0%}")


def main() -> int:
    with run_upstream_loop() as runner:
        runner.run(_print_ratios())
    return 0


if __name__ == "__main__":
    sys.exit(main())
