"""No history stalls the event loop while the gateway runs tools: rounds, approvals, and runs of AG-UI that have both.

See tests/faults/clients/test_large_bodies.py for how a stall is measured.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from tests import databases
from tests.agui_client import run_input, user
from tests.agui_events import read_run
from tests.faults.fast_model import FastModel, fast_model
from tests.mcp_script import answer, scripted_mcp, text_result
from tests.own_process import StallWatch
from tests.serving import serving_here
from tests.upstream.builders import Json

ATTEMPTS = 3
MESSAGE = {"type": "message", "role": "user", "content": "hello"}


@dataclass
class Heavy:
    """A gateway whose model can call the tool of an MCP server, and the number of items that its histories have.
    `watch` measures the request in question: ways that have to prepare each of their requests begin it anew."""

    http: httpx.AsyncClient
    model: FastModel
    tool: Json
    items: int
    watch: StallWatch

    async def post(self, path: str, body: Json) -> httpx.Response:
        content = await asyncio.to_thread(orjson.dumps, body)
        reply = await self.http.post(path, content=content, headers={"content-type": "application/json"})
        assert reply.status_code == 200, reply.text[:500]
        return reply

    async def send(self, **body: Any) -> Json:
        reply = await self.post("/v1/responses", {"model": "m", "input": "x", **body})
        if body.get("stream"):
            assert "response.completed" in reply.text
            return {}
        response = reply.json()
        assert response["status"] in ("completed", "queued", "in_progress"), response
        return response

    async def begin(self, **more: Any) -> Json:
        """Stores a response with the whole history."""
        return await self.send(input=[MESSAGE] * self.items, **more)

    def unasked(self) -> Json:
        return {**self.tool, "require_approval": "never"}


@asynccontextmanager
async def served(folder: Path, items: int) -> AsyncIterator[Heavy]:
    call = answer(text_result("found"))
    async with fast_model() as model, scripted_mcp(call) as lookup:
        config = {
            "providers": {"up": {"type": "vllm", "base_url": model.url, "dialects": ["chat"]}},
            "models": {"m": {"provider": "up"}, "hosting": {"provider": "up", "tools": {"mcp": ["own"]}}},
            "tools": {"mcp": {"servers": {"own": {"url": lookup.url, "approval": "never"}}}},
            "server": {"max_items": 2 * items, "max_json_values": 20 * items, "max_body_mb": 64},
            "egress": {"allow": ["127.0.0.1"]},
            "store": {
                "url": databases.ready_sqlite(folder / "state.db"),
                "max_history_items": 2 * items,
                "deadline_s": 60,
            },
        }
        tool = {"type": "mcp", "server_label": "lookup", "server_url": lookup.url}
        async with (
            serving_here(config) as port,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=None) as http,
        ):
            yield Heavy(http, model, tool, items, StallWatch())


Go = Callable[[], Awaitable[Any]]


async def rounds(heavy: Heavy, **more: Any) -> Go:
    """A request whose model calls a tool twice."""
    first = await heavy.begin()

    async def go() -> None:
        heavy.model.calls_left, heavy.model.rounds = 2, 0
        response = await heavy.send(previous_response_id=first["id"], tools=[heavy.unasked()], **more)
        while response and response["status"] != "completed":
            response = (await heavy.http.get(f"/v1/responses/{response['id']}")).json()
        assert heavy.model.rounds == 3

    return go


async def streamed_rounds(heavy: Heavy) -> Go:
    return await rounds(heavy, stream=True)


async def background_rounds(heavy: Heavy) -> Go:
    return await rounds(heavy, background=True)


async def compacted_rounds(heavy: Heavy) -> Go:
    return await rounds(heavy, context_management=[{"type": "compaction", "compact_threshold": 1000}])


async def conversation_rounds(heavy: Heavy) -> Go:
    conversation = (await heavy.post("/v1/conversations", {})).json()["id"]
    await heavy.begin(conversation=conversation)

    async def go() -> None:
        heavy.model.calls_left, heavy.model.rounds = 1, 0
        await heavy.send(conversation=conversation, tools=[heavy.unasked()])
        assert heavy.model.rounds == 2

    return go


async def sent_rounds(heavy: Heavy) -> Go:
    """The history is in the request, and nothing is stored."""

    async def go() -> None:
        heavy.model.calls_left, heavy.model.rounds = 1, 0
        await heavy.send(input=[MESSAGE] * heavy.items, tools=[heavy.unasked()], store=False)
        assert heavy.model.rounds == 2

    return go


async def chat_rounds(heavy: Heavy) -> Go:
    """A chat request to a model whose configuration names the server."""

    async def go() -> None:
        heavy.model.calls_left, heavy.model.rounds = 1, 0
        messages = [{"role": "user", "content": "hello"}] * heavy.items
        await heavy.post("/v1/chat/completions", {"model": "hosting", "messages": messages})
        assert heavy.model.rounds == 2

    return go


async def approval_requests(heavy: Heavy) -> Go:
    """A reply that ends with a request for an approval."""
    first = await heavy.begin()

    async def go() -> None:
        heavy.model.calls_left = 1
        response = await heavy.send(previous_response_id=first["id"], tools=[heavy.tool])
        assert response["output"][-1]["type"] == "mcp_approval_request"

    return go


async def approvals(heavy: Heavy, *, approve: bool = True) -> Go:
    """An answer to a request for an approval."""
    first = await heavy.begin()

    async def go() -> None:
        heavy.model.calls_left = 1
        response = await heavy.send(previous_response_id=first["id"], tools=[heavy.tool])
        heavy.watch = StallWatch()
        given = {
            "type": "mcp_approval_response",
            "approval_request_id": response["output"][-1]["id"],
            "approve": approve,
        }
        after = await heavy.send(previous_response_id=response["id"], input=[given], tools=[heavy.tool])
        assert ("mcp_call" in [item["type"] for item in after["output"]]) is approve

    return go


async def denials(heavy: Heavy) -> Go:
    return await approvals(heavy, approve=False)


@cache
def messages_of(items: int) -> list[Json]:
    return [user("hello", f"u{number}") for number in range(items)]


class Thread:
    """A thread of AG-UI with the history, which the store has. Its client sends only what is new."""

    def __init__(self, heavy: Heavy, tool: Json, name: str) -> None:
        self.heavy = heavy
        self.props = {"model": "m", "tools": [tool]}
        self.name = name
        self.runs = 0
        self.messages = messages_of(heavy.items)

    async def run(self, *messages: Json, **more: Any) -> list[Json]:
        self.runs += 1
        body = run_input(*messages, thread=self.name, run=f"r{self.runs}", forwardedProps=self.props, **more)
        reply = await self.heavy.post("/v1/agui/m", body)
        events = await asyncio.to_thread(read_run, reply.content)
        assert events[-1]["type"] == "RUN_FINISHED", events[-1]
        return events

    async def begin(self, *, calls: int) -> list[Json]:
        """Stores the thread, whose first run calls a tool so often."""
        self.heavy.model.calls_left, self.heavy.model.rounds = calls, 0
        return await self.run(*self.messages)


async def agui_first_run(heavy: Heavy) -> Go:
    names = count()

    async def go() -> None:
        await Thread(heavy, heavy.unasked(), f"t{next(names)}").begin(calls=1)
        assert heavy.model.rounds == 2

    return go


async def agui_rounds(heavy: Heavy) -> Go:
    """A run that sends one message, which is what its thread then begins with."""
    names = count()

    async def go() -> None:
        thread = Thread(heavy, heavy.unasked(), f"t{next(names)}")
        await thread.begin(calls=0)
        heavy.model.calls_left, heavy.model.rounds = 1, 0
        heavy.watch = StallWatch()
        await thread.run(user("x", "last"))
        assert heavy.model.rounds == 2

    return go


def interrupt_of(events: list[Json]) -> Json:
    (interrupt,) = events[-1]["outcome"]["interrupts"]
    return dict(interrupt)


async def agui_resumes(heavy: Heavy) -> Go:
    """A run that answers an interrupt, and sends nothing else."""
    names = count()

    async def go() -> None:
        thread = Thread(heavy, heavy.tool, f"t{next(names)}")
        interrupt = interrupt_of(await thread.begin(calls=1))
        heavy.watch = StallWatch()
        given = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
        events = await thread.run(resume=[given])
        assert "TOOL_CALL_RESULT" in [event["type"] for event in events]

    return go


async def agui_repeated(heavy: Heavy) -> Go:
    """A run that is sent again: its events are replayed."""
    thread = Thread(heavy, heavy.unasked(), "t")
    await thread.begin(calls=1)

    async def go() -> None:
        thread.runs = 0
        await thread.run(*thread.messages)

    return go


WAYS = [
    rounds,
    streamed_rounds,
    background_rounds,
    compacted_rounds,
    conversation_rounds,
    sent_rounds,
    chat_rounds,
    approval_requests,
    approvals,
    denials,
    agui_first_run,
    agui_rounds,
    agui_resumes,
    agui_repeated,
]


@pytest.mark.parametrize(
    ("begin", "items", "max_stall_s"),
    [(way, 15_000, 0.05) for way in WAYS] + [(way, 90_000, 0.1) for way in (rounds, approvals, agui_resumes)],
    ids=lambda value: getattr(value, "__name__", None),
)
@pytest.mark.timeout(180)
async def test_no_history_stops_the_event_loop(
    begin: Callable[[Heavy], Awaitable[Go]], items: int, max_stall_s: float, tmp_path: Path
) -> None:
    async with served(tmp_path, items) as heavy:
        go = await begin(heavy)
        stalls_s: list[float] = []
        while len(stalls_s) < ATTEMPTS and min(stalls_s, default=max_stall_s) >= max_stall_s:
            heavy.watch = StallWatch()
            await go()
            stalls_s.append(heavy.watch.longest_s)
    assert min(stalls_s) < max_stall_s
