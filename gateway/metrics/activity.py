"""`GET /pages/activity.json`: the requests and figures of all workers in the last minutes, for the home page."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import orjson
from starlette.responses import Response
from starlette.types import Scope

from gateway.errors import MethodNotAllowed
from gateway.histograms import SECONDS_BOUNDS
from gateway.metrics.recent import WorkerActivity
from gateway.metrics.samples import merge_samples, parse_samples
from gateway.pages.activity_page import RequestEntry, build_activity_page
from gateway.pages.static_files import PAGE_HEADERS

ACTIVITY_PATH: Final = "/pages/activity.json"

_CACHED_S: Final = 1.0
"""Seconds for which a reply is repeated, so that several readers cost as much as one."""

_HEADERS: Final = {
    **PAGE_HEADERS,
    "content-type": "application/json",
    "cache-control": "no-store",
    "vary": "authorization, x-api-key, x-goog-api-key",
}


class ActivityReplies:
    """Builds the read model from the activities of all workers."""

    def __init__(
        self, ask_all: Callable[[], Awaitable[list[WorkerActivity]]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask_all = ask_all
        self._clock = clock
        self._lock = asyncio.Lock()
        self._content = b""
        self._read_at = float("-inf")

    async def build_reply(self, scope: Scope) -> Response:
        """Returns the reply to a request. Raises MethodNotAllowed."""
        if scope["method"] not in ("GET", "HEAD"):
            raise MethodNotAllowed(f"there is no {scope['method']:.20} {ACTIVITY_PATH}", headers={"allow": "GET, HEAD"})
        async with self._lock:
            if self._clock() - self._read_at >= _CACHED_S:
                parts = await self._ask_all()
                self._content = await asyncio.to_thread(_render, parts)
                self._read_at = self._clock()
            return Response(self._content, headers=_HEADERS)


def _render(parts: Sequence[WorkerActivity]) -> bytes:
    page = build_activity_page(
        merge_samples(each.now for each in parts),
        merge_samples(each.before for each in parts),
        (entry for each in parts for entry in each.entries),
        seconds=max(each.seconds for each in parts),
        bounds=SECONDS_BOUNDS,
    )
    return orjson.dumps(page)


def parse_activity(content: bytes) -> WorkerActivity:
    """Returns the activity that another worker sent."""
    now, before, seconds, entries = orjson.loads(content)
    return WorkerActivity(
        parse_samples(now), parse_samples(before), seconds, [RequestEntry(**entry) for entry in entries]
    )
