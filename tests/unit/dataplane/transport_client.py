"""The pooled transport before a server that sends exactly what its script has."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from dataplane.transport import PooledTransport
from tests.upstream.script import (
    Framing,
    Reply,
    Script,
    Step,
)
from tests.upstream.server import ScriptedUpstream

LIMITS = {"connect": 5.0, "read": 5.0, "pool": 5.0}


@asynccontextmanager
async def talking(
    *scripts: Script, max_connections: int = 0
) -> AsyncIterator[tuple[PooledTransport, ScriptedUpstream]]:
    async with ScriptedUpstream() as upstream, PooledTransport(max_connections=max_connections) as transport:
        upstream.script(*scripts)
        yield transport, upstream


def post(upstream: ScriptedUpstream, **limits: float) -> httpx.Request:
    timeout = {**LIMITS, **limits}
    return httpx.Request("POST", f"{upstream.url}/x", content=b'{"a":1}', extensions={"timeout": timeout})


async def body_of(response: httpx.Response) -> bytes:
    return b"".join([piece async for piece in response.aiter_raw()])


def reply(*steps: Step, framing: Framing = "chunked", content_length: int | None = None) -> Reply:
    return Reply(body=list(steps), framing=framing, content_length=content_length)
