"""Rolling restarts of two replicas on PostgreSQL while streams run: how many fail, and whether any has a gap."""

import argparse
import asyncio
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

import orjson

from bench.fleet.stream_clients import StreamResults, run_clients
from bench.fleet.switching_proxy import SwitchingProxy
from bench.servers.databases import provide_databases
from bench.servers.processes import Server, find_free_port, start_announcing_server
from bench.servers.upstream import start_upstream

_EXIT_S: Final = 15.0
"""Seconds beyond linger and drain in which a replica must end."""

_STORE_DEADLINE_S: Final = 30.0
"""Longer than the default, because clients, replicas and database share the cores of one machine here."""

_PROGRAM: Final = str(Path(sys.executable).parent / "responses-gateway")


class FleetSetup(NamedTuple):
    """What is run: streams at once, restarts of each replica, and the times of a stop."""

    streams: int = 200
    restarts: int = 3
    linger_s: float = 8.0
    drain_s: float = 60.0
    probe_period_s: float = 1.0
    client_idle_s: float = 5.0
    """Seconds for which clients keep an idle connection: as the SDKs do, and less than the linger. After that time the
    server may close it just as a request is sent."""
    models: Sequence[str] = ("bench-16-1ps",)
    """Models of the benchmark's upstream: 16 deltas, one a second."""


class FleetResult(NamedTuple):
    """What happened."""

    streams: StreamResults
    restarts: int
    refused: int
    """Connections that the proxy could not forward."""
    exit_codes: Sequence[int]
    seconds: float

    @property
    def has_failed(self) -> bool:
        return bool(self.streams.problems) or bool(self.refused) or any(self.exit_codes)


class FleetReplica:
    """One replica on a port of its own, which it keeps over restarts."""

    def __init__(self, upstream: Server, store_url: str, home: Path, number: int, setup: FleetSetup) -> None:
        self.port = find_free_port()
        self.name = f"replica-{number}"
        self._home = home
        self._setup = setup
        self._starts = 0
        self._running = ExitStack()
        self._server: Server
        provider = {"type": "openai_compatible", "base_url": f"http://127.0.0.1:{upstream.port}/v1"}
        config = {
            "server": {"port": self.port, "linger_s": setup.linger_s, "drain_s": setup.drain_s},
            "store": {"url": store_url, "deadline_s": _STORE_DEADLINE_S},
            "providers": {"upstream": {**provider, "capabilities": {"models": False}}},
            "models": {"*": {"provider": "upstream"}},
        }
        self._config = home / f"{self.name}.yaml"
        self._config.write_bytes(orjson.dumps(config))  # JSON is YAML too

    async def migrate(self) -> None:
        """Brings the database to the schema of this version."""
        command = [_PROGRAM, "migrate", "--config", str(self._config)]
        await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)

    async def start(self) -> None:
        """Starts it, and returns once it listens."""
        self._starts += 1
        log = self._home / f"{self.name}-{self._starts}.log"
        command = [_PROGRAM, "serve", "--config", str(self._config)]
        starting = start_announcing_server(self.name, command, None, log)
        self._server = await asyncio.to_thread(self._running.enter_context, starting)

    async def stop(self) -> int:
        """Stops it as an orchestrator does. Returns its exit code. Raises TimeoutExpired if it does not end in time."""
        self._server.process.send_signal(signal.SIGTERM)
        limit_s = self._setup.linger_s + self._setup.drain_s + _EXIT_S
        code = await asyncio.to_thread(self._server.process.wait, limit_s)
        self.end()
        return code

    def end(self) -> None:
        """Ends the process, if it runs, and waits for it."""
        self._running.close()


async def measure_fleet(setup: FleetSetup, home: Path) -> FleetResult:
    """Restarts each replica in turn while clients read streams. Raises KeyError without a PostgreSQL."""
    with provide_databases(home, None) as databases, start_upstream(None, home) as upstream:
        store_url = databases["PostgreSQL"]()
        replicas = [FleetReplica(upstream, store_url, home, number, setup) for number in (1, 2)]
        try:
            await replicas[0].migrate()
            for replica in replicas:
                await replica.start()
            return await _restart_under_load(replicas, setup)
        finally:
            for replica in replicas:
                replica.end()


async def _restart_under_load(replicas: Sequence[FleetReplica], setup: FleetSetup) -> FleetResult:
    proxy = SwitchingProxy([replica.port for replica in replicas], setup.probe_period_s)
    results = StreamResults()
    exit_codes: list[int] = []
    began = monotonic()
    async with proxy.serve() as port, asyncio.TaskGroup() as tasks:
        base_url = f"http://127.0.0.1:{port}/v1"
        clients = run_clients(base_url, setup.models, setup.streams, results, idle_s=setup.client_idle_s)
        tasks.create_task(clients)
        try:
            while results.live < setup.streams and not results.problems:  # noqa: ASYNC110  # clients begin at their own pace
                await asyncio.sleep(0.05)
            for replica in [*replicas] * setup.restarts:
                results.begin_phase(f"{replica.name} stops")
                exit_codes.append(await replica.stop())
                results.begin_phase(f"{replica.name} starts")
                await replica.start()
                await proxy.wait_until_ready(replica.port)
        finally:
            results.is_over = True
    return FleetResult(results, len(exit_codes), proxy.refused, exit_codes, monotonic() - began)


def render_fleet_result(setup: FleetSetup, result: FleetResult) -> list[str]:
    """Returns the result as lines for people."""
    streams = result.streams
    failed = streams.problems.total()
    lines = [
        f"{setup.streams} streams at once, {result.restarts} restarts of two replicas, {result.seconds:.0f} s",
        f"{streams.completed} streams completed, {failed} failed; "
        f"read on {streams.resumed} times without a gap; {result.refused} connections refused",
    ]
    lines += [f"  {count} x {reason}" for reason, count in streams.problems.most_common()]
    if any(result.exit_codes):
        lines.append(f"  exit codes of the replicas: {[*result.exit_codes]}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description=__doc__)
    parser.add_argument("--streams", type=int, default=200, help="streams at once")
    parser.add_argument("--restarts", type=int, default=3, help="restarts of each replica")
    parser.add_argument("--linger", type=float, default=FleetSetup().linger_s, help="server.linger_s")
    parser.add_argument("--drain", type=float, default=FleetSetup().drain_s, help="server.drain_s")
    options = parser.parse_args()
    setup = FleetSetup(options.streams, options.restarts, options.linger, options.drain)
    with tempfile.TemporaryDirectory() as home:
        result = asyncio.run(measure_fleet(setup, Path(home)))
    print("\n".join(render_fleet_result(setup, result)))
    return int(result.has_failed)
