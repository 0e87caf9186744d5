"""What a child process prints is read without holding up the loop, and in its order."""

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.tools.mcp import stdio
from gateway.tools.mcp.answers import weigh_message
from gateway.tools.mcp.server import StdioCommand
from gateway.tools.mcp.stdio import StdioTransport
from tests.own_process import StallWatch
from translation.hosted.bounds import DEFAULT_ANSWER_LIMITS, AnswerLimits

MAX_STALL_S: Final = 0.065
"""What docs/mcp.md promises."""

ATTEMPTS: Final = 3

LAST: Final = {"jsonrpc": "2.0", "id": "last", "method": "ping"}
PROGRAM = """
import pathlib, sys
sys.stdout.buffer.write(pathlib.Path(sys.argv[1]).read_bytes())
sys.stdout.flush()
sys.stdin.read()
"""


@asynccontextmanager
async def printing(output: bytes, folder: Path, limits: AnswerLimits = DEFAULT_ANSWER_LIMITS) -> AsyncIterator[Any]:
    """Yields the messages of a child that prints some output, and then waits."""
    program, printed = folder / "server.py", folder / "output"
    program.write_text(PROGRAM)
    printed.write_bytes(output)
    command = StdioCommand(arguments=(sys.executable, str(program), str(printed)))
    transport = StdioTransport(command, limits, str, lambda: None, lambda _: None)
    async with AsyncExitStack() as stack, await transport.enter(stack) as (received, _):
        yield received


async def read_to_last(received: Any) -> list[Any]:
    """Returns the ids of the messages before the last one."""
    ids: list[Any] = []
    async with asyncio.timeout(60):
        async for each in received:
            if each.message.id == LAST["id"]:
                return ids
            ids.append(each.message.id)
    raise AssertionError("the output ended before its last message")


def write_line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


REQUEST: Final = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
EMOJI: Final = "\N{GRINNING FACE}\n"

OUTPUTS: Final[dict[str, bytes]] = {
    "blank lines": b"\n" * 4_000_000,
    "lines of 4 MB": (b"a" * 4_000_000 + b"\n") * 4,
    "a line of 4 MB of blanks": b" " * 4_000_000 + b"\n",
    "lines of a log": b"a\n" * 2_000_000,
    "lines that are nearly messages": b"{\n" * 400_000,
    "objects that are no messages": b"{}\n" * 400_000,
    "notifications": write_line({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}) * 40_000,
    "notifications of 5 MB with escapes": write_line(
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"x": EMOJI * 350_000}}
    )
    * 4,
}


@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS)
async def test_no_output_holds_up_the_loop(output: bytes, tmp_path: Path) -> None:
    for _ in range(ATTEMPTS):
        async with printing(output + write_line(LAST), tmp_path) as received:
            watch = StallWatch()
            assert await read_to_last(received) == []
            if (stall_s := watch.longest_s) <= MAX_STALL_S:
                break
    assert stall_s <= MAX_STALL_S


async def test_large_messages_are_read_in_a_thread_and_keep_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: dict[str, list[bool]] = {"weigh": [], "validate": []}
    validate = stdio._validate_line

    def is_in_thread() -> bool:
        return threading.current_thread() is not threading.main_thread()

    def weigh_here(data: bytes, limits: AnswerLimits) -> bytes:
        threads["weigh"].append(is_in_thread())
        return weigh_message(data, limits)

    def validate_here(line: bytes) -> Any:
        threads["validate"].append(is_in_thread())
        return validate(line)

    monkeypatch.setattr(stdio, "weigh_message", weigh_here)
    monkeypatch.setattr(stdio, "_validate_line", validate_here)
    messages = [{**REQUEST, "id": number, "params": {"x": "x" * size}} for number, size in enumerate([1, 300_000, 2])]
    async with printing(b"".join(map(write_line, [*messages, LAST])), tmp_path) as received:
        assert await read_to_last(received) == [0, 1, 2]
    assert threads == {"weigh": [False, True, False, False], "validate": [False, True, False, False]}


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n", b" \n"])
async def test_messages_are_found_among_other_lines(end: bytes, tmp_path: Path) -> None:
    lines = [b"Started {}.", b'  {"jsonrpc": "2.0", "id": 1, "method": "ping"}', b"[1]", b"{", b'{"a": 1}', b"\xff"]
    lines += [b'{"jsonrpc": "2.0", "id": [1], "result": {}} ', b'{"jsonrpc": "2.0", "id": 2, "method": "ping"}']
    output = end.join([*lines, write_line(LAST)])
    async with printing(output, tmp_path) as received:
        ids: list[Any] = []
        async with asyncio.timeout(60):
            async for each in received:
                if not isinstance(each, Exception):
                    ids.append(each.message.id)
                    if each.message.id == "last":
                        break
    assert ids == [1, 2, "last"]


async def test_a_line_that_is_too_large_is_refused_and_the_next_one_is_read(tmp_path: Path) -> None:
    limits = AnswerLimits(max_bytes=100_000)
    too_large = {"jsonrpc": "2.0", "id": 7, "result": {"x": "x" * 300_000}}
    async with printing(write_line(too_large) + write_line(LAST), tmp_path, limits) as received:
        async with asyncio.timeout(60):
            refusal = await received.receive()
            assert await read_to_last(received) == []
    assert refusal.message.id == 7
    assert "result_too_large" in refusal.message.error.message


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
async def test_a_byte_order_mark_before_the_first_line_is_ignored(mark: bytes, tmp_path: Path) -> None:
    async with printing(mark + write_line(REQUEST) + write_line(LAST), tmp_path) as received:
        assert await read_to_last(received) == [1]


async def test_a_byte_order_mark_may_arrive_in_parts(tmp_path: Path) -> None:
    stdout = asyncio.StreamReader()
    reading = asyncio.create_task(stdio._read_beginning(stdout))
    for part in (b"\xef", b"\xbb", b"\xbf", b'{"'):
        stdout.feed_data(part)
        await asyncio.sleep(0.01)
    assert await reading == b'{"'


@pytest.mark.parametrize("before", [b"", b" " * 100_000, b"\t\r"])
async def test_a_message_is_read_behind_blanks_and_long_lines(before: bytes, tmp_path: Path) -> None:
    limits = AnswerLimits(max_bytes=50_000)
    long = {**REQUEST, "params": {"x": "x" * 40_000}}
    output = b"a log " * 50_000 + b"\n" + before + write_line(REQUEST) + before[-70_000:] + b"\n" + write_line(long)
    async with printing(output + write_line(LAST), tmp_path, limits) as received:
        assert await read_to_last(received) == [1, 1]


async def test_a_heavy_message_that_is_no_answer_ends_nothing(tmp_path: Path) -> None:
    limits = AnswerLimits(max_values=100)
    params = {"id": 1, "a": [1] * 200}
    lines = [{"jsonrpc": "2.0", "method": "notifications/message", "params": params}, {**REQUEST, "params": params}]
    heavy = {"jsonrpc": "2.0", "result": params, "id": 5}
    async with printing(b"".join(map(write_line, [*lines, heavy, LAST])), tmp_path, limits) as received:
        assert await read_to_last(received) == [5]
