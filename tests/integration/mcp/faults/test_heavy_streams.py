"""What surrounds the messages on a stream of a server holds up nobody either: comments, empty events, short chunks.

All shapes are in tests/unit/gateway/tools/mcp/test_stream_shapes.py. These are some of them, over real connections.
"""

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import pytest

from gateway.tools.mcp.server import MAX_DROPPED_BYTES
from tests.integration.mcp.faults.test_heavy_answers import ATTEMPTS, hosting_here
from tests.integration.mcp.tool_gateway import LOOK_UP, mcp_tool
from tests.mcp_script import answer, scripted_mcp, sse_frame, text_result
from tests.own_process import StallWatch
from tests.upstream import Reply, chat_calls, chat_text
from tests.upstream.builders import SSE, Json
from tests.upstream.script import Exchange, Raw, Repeat, Script, Step

MAX_STALL_S: Final = 0.1
"""It also has what the rest of a request takes, and both ends of each connection."""

ANSWERED: Final = "tiger"

MEGABYTE: Final = 1024 * 1024
PROGRESS: Final = sse_frame({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}})

BEFORE: Final[dict[str, Sequence[Step]]] = {
    "4 MB of comments in one frame": [b":\n" * (2 * MEGABYTE)],
    "4 MB of an unknown field": [b"a\n" * (2 * MEGABYTE)],
    "150,000 empty lines of data": [b"data\n" * 150_000 + b"\n"],
    "a million blank lines": [b"\n" * 1_000_000],
    "40,000 ids": [b"id: 1\n\n" * 40_000],
    "40,000 reports of progress": [PROGRESS * 40_000],
    "40,000 chunks of one byte": [Raw(b"1\r\n:\r\n" * 40_000), b"\n"],
}


def answer_after(steps: Sequence[Step]) -> Script:
    async def play(exchange: Exchange) -> None:
        message = {"jsonrpc": "2.0", "id": exchange.request.json["id"], "result": text_result(ANSWERED)}
        await Reply(headers=SSE, body=[*steps, sse_frame(message)])(exchange)

    return play


async def ask(call: Script, get: Script | None = None) -> tuple[Json, float]:
    """Lets a gateway use a server. Returns the item of the call, and the longest stall."""
    async with (
        scripted_mcp(call, era="legacy", get=get) as server,
        hosting_here(chat_calls(LOOK_UP), chat_text("done")) as client,
    ):
        watch = StallWatch()
        response = await client.responses.create(model="m", input="Hi", tools=[mcp_tool(server.url)])
        stall_s = watch.longest_s
    (item,) = [item for item in json.loads(response.model_dump_json())["output"] if item["type"] == "mcp_call"]
    return item, stall_s


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
async def test_what_comes_before_an_answer_holds_up_nobody(before: Sequence[Step]) -> None:
    for _ in range(ATTEMPTS):
        item, stall_s = await ask(answer_after(before))
        assert item["output"] == ANSWERED
        if stall_s <= MAX_STALL_S:
            break
    assert stall_s <= MAX_STALL_S


async def test_a_call_whose_stream_has_too_much_besides_its_answer_fails() -> None:
    item, _ = await ask(answer_after([b"data\n" * 300_000]))
    assert "the server sent more than 200000 lines" in json.dumps(item["error"])


async def test_a_stream_that_the_server_opens_unasked_is_refused_and_calls_go_on() -> None:
    comments = b":\n" * 32_767 + b"\n"
    refused = asyncio.Event()

    async def flood(exchange: Exchange) -> None:
        with suppress(ConnectionError):
            await Reply(headers=SSE, body=[Repeat(comments, 2 * MAX_DROPPED_BYTES // len(comments))])(exchange)
            raise AssertionError("all of the stream was read")
        refused.set()

    async def answer_when_refused(exchange: Exchange) -> None:
        async with asyncio.timeout(60):
            await refused.wait()
        await answer(text_result(ANSWERED))(exchange)

    for _ in range(ATTEMPTS):
        refused.clear()
        item, stall_s = await ask(answer_when_refused, flood)
        assert item["output"] == ANSWERED
        if stall_s <= MAX_STALL_S:
            break
    assert stall_s <= MAX_STALL_S
