"""Counts the bytecodes that the interpreter executes for one request: `python -m bench.in_process.bytecodes`.

The whole server runs without sockets. The count is the same on a busy machine as on a quiet one, but it is not all of
the time: compiled code is not in it. `--functions SCENARIO` also prints the bytecodes of each function.
"""

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from bench.in_process.no_sockets import InProcessClient, run_upstream_loop

_ROOT: Final = Path(__file__).parents[2]
_BENCH: Final = str(_ROOT / "bench")

_CHAT: Final = "/v1/chat/completions"

COUNTED_REQUESTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "translate, not streaming": {"model": "bench-128", "stream": False},
    "translate, 4 deltas": {"model": "bench-4", "stream": True},
    "translate, 128 deltas": {"model": "bench-128", "stream": True},
    "translate, 128 deltas, 12 tools": {"model": "bench-128", "stream": True, "tools": 12},
    "relay chat, not streaming": {"model": "bench-128", "stream": False, "path": _CHAT},
    "relay chat, 4 deltas": {"model": "bench-4", "stream": True, "path": _CHAT},
    "three upstreams, not streaming": {"model": "bench-128", "stream": False, "upstreams": 3},
    "three upstreams, 4 deltas": {"model": "bench-4", "stream": True, "upstreams": 3},
}
"""The arguments of the client by the name of the scenario."""

_WARM_UP: Final = 60
"""Requests before the counted ones: caches are filled, and the interpreter has specialized its code."""

_REQUESTS: Final = 64


async def count_bytecodes(scenario: str, requests: int = _REQUESTS, warm_up: int = _WARM_UP) -> Counter[CodeType]:
    """Returns the bytecodes that so many requests of a scenario execute, by function, without those of the benchmark.

    It must run on an `UpstreamLoop`.
    """
    return await count_requests(InProcessClient(**COUNTED_REQUESTS[scenario]), requests, warm_up)


async def count_requests(
    client: InProcessClient, requests: int = _REQUESTS, warm_up: int = _WARM_UP
) -> Counter[CodeType]:
    """Returns what `count_bytecodes` returns, for the requests of one client."""
    for _ in range(warm_up):
        await client.ask()
    client.check()
    with _count_bytecodes() as counts:
        for _ in range(requests):
            await client.ask()
            await asyncio.sleep(0)  # what the gateway does after the reply
    return Counter({code: count for code, count in counts.items() if not code.co_filename.startswith(_BENCH)})


async def compare_bytecodes(clients: Sequence[InProcessClient], requests: int = _REQUESTS) -> str:
    """Returns how many bytecodes a request of each of two clients takes, and the first number by the second."""
    counts = [(await count_requests(client, requests)).total() / requests for client in clients]
    return f"{counts[0]:,.0f} / {counts[1]:,.0f} = {counts[0] / counts[1]:.3f}"


@contextmanager
def _count_bytecodes() -> Iterator[Counter[CodeType]]:
    """Counts all bytecodes of this thread until the block ends."""
    counts: Counter[CodeType] = Counter()

    def trace_frame(frame: FrameType, event: str, _: object) -> Any:
        if event == "opcode":
            counts[frame.f_code] += 1
        else:
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return trace_frame

    sys.settrace(trace_frame)
    try:
        yield counts
    finally:
        sys.settrace(None)


def _print_functions(counts: Counter[CodeType]) -> None:
    for code, count in counts.most_common():
        path = code.co_filename.removeprefix(f"{_ROOT}/").rpartition("site-packages/")[2]
        print(f"{count / _REQUESTS:10.1f}  {path}:{code.co_firstlineno} {code.co_qualname}")


async def _print_counts(scenarios: Iterable[str], *, shows_functions: bool) -> None:
    for scenario in scenarios:
        counts = await count_bytecodes(scenario)
        print(f"{counts.total() / _REQUESTS:10,.0f}  {scenario}")
        if shows_functions:
            _print_functions(counts)


def main() -> int:
    parser = argparse.ArgumentParser(description="Counts the bytecodes of one request.")
    parser.add_argument("--functions", metavar="SCENARIO", choices=COUNTED_REQUESTS, help="only this one, by function")
    chosen: str | None = parser.parse_args().functions
    with run_upstream_loop() as runner:
        scenarios = COUNTED_REQUESTS if chosen is None else [chosen]
        runner.run(_print_counts(scenarios, shows_functions=chosen is not None))
    return 0


if __name__ == "__main__":
    sys.exit(main())
