"""Servers with background responses, and what clients read of these."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gateway.state.values import ACTIVE_STATUSES
from tests.polling import PROMPT_S, read_until
from tests.serving import Gateway, serving
from tests.state.replicas import Client, Stream
from tests.upstream import Hang, Pause, Request
from tests.upstream.builders import DONE, data_frame, sse_reply, text_chunks

Json = dict[str, Any]

PATIENCE_S = 60.0
PIECES = [f"piece {number}, " for number in range(12)]


@contextmanager
def served(store_url: str, upstream_url: str, **sections: Any) -> Iterator[Gateway]:
    """Yields a server in a thread of this process, for tests that neither stop nor kill it."""
    config: Json = {
        "server": {"drain_s": 0.2},
        "store": {"url": store_url, "poll_s": 0.05},
        "providers": {"chat": {"type": "openai_compatible", "base_url": upstream_url, "retries": 0}},
        "models": {"lasting": {"provider": "chat", "resumable": True}, "*": {"provider": "chat"}},
    }
    with serving({name: {**config.get(name, {}), **sections.get(name, {})} for name in config | sections}) as server:
        yield server


def in_halves(gate: asyncio.Event, *pieces: str) -> Any:
    """A text whose second half is sent when the gate opens."""
    chunks = [data_frame(chunk) for chunk in text_chunks(*pieces)]
    half = 1 + len(pieces) // 2
    return sse_reply(*chunks[:half], Pause(gate), *chunks[half:], DONE)


def hanging(*pieces: str) -> Any:
    """A text that never ends."""
    return sse_reply(*(data_frame(chunk) for chunk in text_chunks(*pieces)[: 1 + len(pieces)]), Hang())


async def ended(asking: Client, response_id: str) -> Json:
    return await read_until(lambda: asking.read(response_id), lambda read: read["status"] not in ACTIVE_STATUSES)


async def is_closed(request: Request) -> None:
    async with asyncio.timeout(PROMPT_S):
        await request.closed


def is_whole(events: list[Json], first: int = 0) -> bool:
    """Whether every number occurs once, in order, with one end."""
    return [event["sequence_number"] for event in events] == list(range(first, first + len(events)))


async def resumed(asking: Client, response_id: str, after: int | None = None) -> Stream:
    """The rest of a stream, to its end."""
    place = "" if after is None else f"&starting_after={after}"
    async with asking.stream("GET", f"/responses/{response_id}?stream=true{place}") as stream:
        assert stream.answer.status_code == 200, await stream.answer.aread()
        await stream.read_all()
    return stream


async def raw(asking: Client, response_id: str, after: int | None = None) -> bytes:
    place = "" if after is None else f"&starting_after={after}"
    answer = await asking.http.get(f"/responses/{response_id}?stream=true{place}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return answer.content
