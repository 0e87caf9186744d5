"""Measures what scrapes of `/metrics` cost a server under load: `python -m bench.scenarios.scrapes`.

A load of paced streams takes the same CPU in every second. In alternating windows it runs alone, and with one scrape a
second, which is the most that is rendered: whoever asks more often gets the same text. Before, the server has counted
requests for many names, so that there are as many series as a fleet has.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from time import monotonic, sleep
from typing import Final, NamedTuple
from urllib.request import Request, urlopen

import orjson

from bench.load.requests import LoadSpec
from bench.scenarios.measurement import run_load
from bench.servers.gateway import GatewaySetup, start_gateway
from bench.servers.processes import Server, choose_cores
from bench.servers.upstream import start_upstream

_NAMES: Final = 40
_CONNECTIONS: Final = 32
_SCRAPE_S: Final = 1.0
_USUAL_S: Final = 15.0
"""The interval at which Prometheus scrapes by default."""


class ScrapeCost(NamedTuple):
    """What scrapes cost."""

    series: int
    """The lines with values of one reply."""
    load_share: float
    """The CPU of the load alone, as a share of one core."""
    scrape_s: float
    """The CPU of one scrape, in seconds: the median of the pairs of windows."""

    def describe(self) -> str:
        """Returns the lines to print."""
        each_second, usual = (self.scrape_s / interval for interval in (_SCRAPE_S, _USUAL_S))
        return (
            f"{self.series} values; the load alone takes {self.load_share:.0%} of a core\n"
            f"{self.scrape_s * 1e3:6.1f} ms of CPU for a scrape\n"
            f"{each_second:7.2%} of a core, scraped every second\n"
            f"{usual:7.2%} of a core, scraped every {_USUAL_S:g} s\n"
        )


def measure_scrapes(pairs: int, window_s: float, names: int = _NAMES) -> ScrapeCost:
    """Returns the cost, from so many pairs of windows."""
    server_core, load_core = choose_cores()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as executor:
        home = Path(folder)
        with (
            start_upstream(load_core, home) as upstream,
            start_gateway(upstream, server_core, home, GatewaySetup(names=names)) as server,
        ):
            for number in range(names):
                for stream in (True, False):
                    _send_request(server, f"name-{number}", stream=stream)
            series = sum(not line.startswith(b"#") for line in _scrape(server).splitlines())
            spec = LoadSpec(
                port=server.port,
                path="/v1/responses",
                model="bench-128-50ps",
                stream=True,
                connections=_CONNECTIONS,
                seconds=2 * pairs * window_s,
            )
            load = executor.submit(run_load, server, spec, load_core, home / "load.log")
            sleep(1)  # the load has begun
            alone: list[float] = []
            scraped: list[float] = []
            for _ in range(pairs):
                alone.append(_measure_window(server, window_s, lambda: None))
                scraped.append(_measure_window(server, window_s, lambda: _scrape(server)))
            load.result()
    scrapes = window_s / _SCRAPE_S
    added = median(with_scrapes - without for with_scrapes, without in zip(scraped, alone, strict=True))
    return ScrapeCost(series, median(alone) / window_s, added / scrapes)


def _measure_window(server: Server, window_s: float, act: Callable[[], object]) -> float:
    """Returns the CPU seconds of the server in a window in which `act` is called every second."""
    before, began = server.cpu_s(), monotonic()
    for second in range(round(window_s / _SCRAPE_S)):
        act()
        sleep(max(0.0, began + (second + 1) * _SCRAPE_S - monotonic()))
    return server.cpu_s() - before


def _send_request(server: Server, model: str, *, stream: bool) -> None:
    body = orjson.dumps({"model": model, "input": "Say the tokens.", "store": False, "stream": stream})
    address = f"http://127.0.0.1:{server.port}/v1/responses"
    with urlopen(Request(address, body, {"content-type": "application/json"}), timeout=30) as reply:
        reply.read()


def _scrape(server: Server) -> bytes:
    with urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=30) as reply:
        content: bytes = reply.read()
    return content


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.scenarios.scrapes")
    parser.add_argument("--pairs", type=int, default=10, help="pairs of windows without and with scrapes")
    parser.add_argument("--window", type=float, default=3.0, help="seconds of a window")
    options = parser.parse_args(arguments)
    sys.stdout.write(measure_scrapes(options.pairs, options.window).describe())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
