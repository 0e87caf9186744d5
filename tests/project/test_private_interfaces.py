"""Names the private and undocumented parts of uvicorn, aiosqlite and the standard library that the code relies on.

These libraries have an upper bound in pyproject.toml. When a bound is raised, this test says first what has moved.
`mcp` and vLLM are bounded for the same reason: their interfaces change with every minor release. What the gateway uses
of vLLM is not listed here, because vLLM is not installed; the tests in `tests/engine/` use all of it.
"""

import asyncio
import sqlite3
import sys
import tomllib
from pathlib import Path
from typing import Any

import aiosqlite
import aiosqlite.core
import pytest
from packaging.requirements import Requirement
from uvicorn import Config
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import Server, ServerState

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]

CYCLE = (
    "body",
    "chunked_encoding",
    "default_headers",
    "disconnected",
    "flow",
    "keep_alive",
    "message_event",
    "more_body",
    "on_response",
    "response_complete",
    "response_started",
    "run_asgi",
    "scope",
    "transport",
    "waiting_for_100_continue",
)
PROTOCOL = (
    "_should_upgrade",
    "_unset_keepalive_if_required",
    "_unsupported_upgrade_warning",
    "access_log",
    "access_logger",
    "app",
    "connection_lost",
    "connection_made",
    "cycle",
    "data_received",
    "expect_100_continue",
    "flow",
    "handle_websocket_upgrade",
    "headers",
    "limit_concurrency",
    "logger",
    "loop",
    "on_body",
    "on_header",
    "on_headers_complete",
    "on_message_begin",
    "on_response_complete",
    "parser",
    "pause_writing",
    "pipeline",
    "resume_writing",
    "root_path",
    "send_400_response",
    "server_state",
    "tasks",
    "timeout_keep_alive",
    "timeout_keep_alive_handler",
    "transport",
)
WEBSOCKET = ("handle_cont", "handle_ping", "keepalive_timeout", "send", "send_receive_event_to_app", "shutdown")
PATTERN_CODES = (
    "ANY",
    "AT",
    "AT_BEGINNING",
    "AT_BEGINNING_STRING",
    "AT_END",
    "ATOMIC_GROUP",
    "BRANCH",
    "GROUPREF",
    "IN",
    "LITERAL",
    "MAX_REPEAT",
    "MIN_REPEAT",
    "NEGATE",
    "NOT_LITERAL",
    "POSSESSIVE_REPEAT",
    "RANGE",
    "SUBPATTERN",
)
CONNECTION = ("_conn", "_connection", "_execute", "_running", "_thread", "_tx")


async def _serve_nothing(_scope: Any, _receive: Any, _send: Any) -> None:
    """An application that is never called."""


def test_uvicorns_protocol_has_the_parts_that_the_client_writer_uses() -> None:
    loop = asyncio.new_event_loop()
    try:
        protocol = httptools_impl.HttpToolsProtocol(Config(app=_serve_nothing), ServerState(), {}, _loop=loop)
        missing = [name for name in PROTOCOL if not hasattr(protocol, name)]
    finally:
        loop.close()
    assert missing == []


async def test_uvicorns_cycle_has_the_parts_that_the_client_writer_uses() -> None:
    transport = asyncio.Transport()
    cycle = httptools_impl.RequestResponseCycle(
        {"type": "http", "method": "POST"},  # type: ignore[typeddict-item]  # nothing else is read here
        transport,
        flow := FlowControl(transport),
        None,  # type: ignore[arg-type]  # nothing is logged here
        None,  # type: ignore[arg-type]
        False,
        [],
        asyncio.Event(),
        False,
        True,
        lambda: None,
    )
    assert [name for name in CYCLE if not hasattr(cycle, name)] == []
    assert [name for name in ("read_paused", "resume_reading", "write_paused") if not hasattr(flow, name)] == []
    assert httptools_impl.STATUS_LINE[200].startswith(b"HTTP/1.1 200")


def test_uvicorns_websocket_protocol_has_the_methods_that_are_overridden_or_called() -> None:
    assert [name for name in WEBSOCKET if not hasattr(WebSocketsSansIOProtocol, name)] == []


def test_uvicorns_server_has_the_parts_that_the_gateways_server_uses() -> None:
    config = Config(app=_serve_nothing)
    config.load()
    server = Server(config)
    server.lifespan = config.lifespan_class(config)
    parts = ("_captured_signals", "config", "force_exit", "lifespan", "server_state", "should_exit")
    assert [name for name in parts if not hasattr(server, name)] == []
    assert hasattr(server.lifespan, "state")
    assert hasattr(config, "http_protocol_class")


async def test_aiosqlites_connection_has_the_parts_that_the_driver_uses() -> None:
    async with aiosqlite.Connection(lambda: sqlite3.connect(":memory:"), 64) as connection:
        assert [name for name in CONNECTION if not hasattr(connection, name)] == []
    for name in ("_STOP_RUNNING_SENTINEL", "_TxQueue", "_connection_worker_thread"):
        assert hasattr(aiosqlite.core, name)


async def test_asyncios_futures_have_the_flag_that_awaiting_tasks_read() -> None:
    assert asyncio.get_running_loop().create_future()._asyncio_future_blocking is False


async def test_asyncios_processes_have_the_transport_that_closes_their_pipes() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    try:
        assert isinstance(process._transport, asyncio.SubprocessTransport)  # type: ignore[attr-defined]
    finally:
        await process.wait()


def test_res_parser_has_the_parts_that_sample_texts_are_built_from() -> None:
    from re import _constants, _parser  # type: ignore[attr-defined]  # private

    assert [name for name in PATTERN_CODES if not hasattr(_constants, name)] == []
    ((repeat, (least, most, _)),) = _parser.parse("a{2,3}")
    assert (repeat, least, most) == (_constants.MAX_REPEAT, 2, 3)


@pytest.mark.parametrize("library", ["aiosqlite", "mcp", "uvicorn", "vllm"])
def test_a_library_whose_private_parts_are_used_has_an_upper_bound(library: str) -> None:
    declared = map(Requirement, [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["vllm"]])
    (requirement,) = (each for each in declared if each.name == library)
    assert "<" in {specifier.operator for specifier in requirement.specifier}
