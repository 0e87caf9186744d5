"""Measures tools that the gateway runs: responses that declare some and call none, and the time of one call."""

import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.load.requests import LoadSpec, build_question
from bench.scenarios.cost_row import CostRow
from bench.scenarios.measurement import BenchEnvironment, run_load
from bench.servers.gateway import GatewaySetup, start_gateway
from bench.servers.mcp_server import MCP_LABEL, TOOL_COUNT, build_tool_list
from bench.servers.processes import Server, start_announcing_server

TOOLS: Final = "tools of an MCP server"

_DECLARED_TARGET: Final = 1.2
_CALL_TARGET_MS: Final = 3.0


def measure_hosted_tools(bench: BenchEnvironment) -> list[CostRow]:
    """Returns the rows. `without` is the same load with function tools; for a call it is two answers without one.

    Raises WrongAnswers.
    """
    program = [sys.executable, "-m", "bench.servers.mcp_server"]
    cpu: list[tuple[float, float]] = []
    calls: list[tuple[float, float]] = []
    lists: list[tuple[float, float]] = []
    for turn in range(bench.rounds):
        print(f"{TOOLS}: {turn + 1} of {bench.rounds}", file=sys.stderr)
        with (
            start_announcing_server("mcp", program, bench.load_core, bench.home / "mcp.log") as mcp,
            start_gateway(bench.upstream, bench.core, bench.home, GatewaySetup(reaches_loopback=True)) as server,
        ):
            load = _LoadRunner(server, bench.load_core, bench.home / "load.log")
            streams = LoadSpec(
                server.port, "/v1/responses", "bench-128", stream=True, connections=64, seconds=bench.seconds
            )
            single = replace(streams, model="bench-4", connections=1)
            listed = _build_fields(mcp.port, is_listed=True)
            cpu.append((load.cpu_us(replace(streams, tools=TOOL_COUNT)), load.cpu_us(replace(streams, fields=listed))))
            plain_ms = load.whole_ms(replace(single, fields=listed))
            unlisted = _build_fields(mcp.port, is_listed=False)
            listing_ms = load.whole_ms(replace(single, fields=unlisted))
            lists.append((plain_ms, listing_ms))
            # A call takes a second answer of the model. The connection is the one on which the tools were listed.
            call_ms = load.whole_ms(replace(single, model="bench-4-call", fields=unlisted))
            calls.append((listing_ms + plain_ms, call_ms))
    ratios = tuple(after / before for before, after in cpu)
    return [
        CostRow(f"{TOOLS}, 12 listed and none called, CPU", "-", "µs/response", *_compute_medians(cpu), ratios=ratios),
        CostRow(f"{TOOLS}, that to function tools", "-", "ratio", None, median(ratios), _DECLARED_TARGET, ratios),
        CostRow(f"{TOOLS}, one call", "-", "ms", *_compute_medians(calls), _CALL_TARGET_MS),
        CostRow(f"{TOOLS}, listing them", "-", "ms", *_compute_medians(lists)),
    ]


class _LoadRunner:
    """Runs loads on one gateway."""

    def __init__(self, server: Server, core: int | None, log: Path) -> None:
        self._server = server
        self._core = core
        self._log = log

    def cpu_us(self, spec: LoadSpec) -> float:
        """Returns the CPU of one response."""
        result, cpu_s = run_load(self._server, spec, self._core, self._log)
        return cpu_s * 1e6 / result.requests

    def whole_ms(self, spec: LoadSpec) -> float:
        """Returns the median time of one response."""
        result, _ = run_load(self._server, spec, self._core, self._log)
        return median(result.wholes) * 1e3


def _build_fields(port: int, *, is_listed: bool) -> dict[str, Any]:
    """Returns the fields of requests that declare the server. With `is_listed`, its list is in the context already."""
    tool = {
        "type": "mcp",
        "server_label": MCP_LABEL,
        "server_url": f"http://127.0.0.1:{port}/mcp",
        "require_approval": "never",
    }
    listed = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": MCP_LABEL, "tools": build_tool_list()}
    return {"tools": [tool], "input": [*([listed] if is_listed else []), build_question()]}


def _compute_medians(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    before, after = (median(values) for values in zip(*pairs, strict=True))
    return before, after
