"""Streams a response from the event log: its entries, then further entries that any replica appends."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

import orjson

from gateway.error_replies import build_openai_error_body
from gateway.errors import NotFound, StoreUnavailable
from gateway.replies.obfuscation import pad_frames
from gateway.state.store import Store
from gateway.state.values import ACTIVE_STATUSES, NO_HEADERS, LogEntry, LogPage
from translation.errors import InvalidRequest
from translation.framing import sse
from translation.representation.json_types import Json

_TERMINAL_EVENTS: Final = frozenset({b"response.completed", b"response.incomplete", b"response.failed"})
_RETRY_S: Final = 0.5

LAST_OPENING_EVENT: Final = 1
"""The last sequence number of a log that has only `response.created` and `response.in_progress`."""


class LogReplay:
    """A ReplyStream of the events of one response with sequence numbers above `after`.

    It ends with [DONE] after the terminal event. A replay that cannot go on ends with an `error` event, which has no
    number of its own: the response continues, and the client can resume after the last number it has. It retries while
    the database is unavailable, for up to `max_outage_s`. With `obfuscates` deltas are padded.

    The status is sent at once, since the response is known to exist. With `hold_s` neither the status nor the opening
    events are sent before the first content, for so many seconds: until then the upstream may change, and with it what
    they say. `headers` are those that are stored with the response, as far as they are known.
    """

    def __init__(
        self,
        store: Store,
        owner: str,
        response_id: str,
        *,
        after: int = -1,
        max_outage_s: float,
        obfuscates: bool = False,
        hold_s: float = 0.0,
    ) -> None:
        self.ended = False
        self.has_content = not hold_s
        self.headers = NO_HEADERS
        self.learns_headers = False
        """Whether its headers are stored with its first content, and have to be read then."""
        self._held_until = time.monotonic() + hold_s
        self._is_concluded = False
        self._store = store
        self._owner = owner
        self._response_id = response_id
        self._after = after
        self._max_outage_s = max_outage_s
        self._obfuscates = obfuscates
        self._last_frame = b""

    async def frames(self) -> AsyncGenerator[bytes, None]:
        yield b""  # lets the sender send the status although there are no events yet
        async with self._store.event_log.watch_response(self._owner, self._response_id) as watch:
            while not self.ended:
                page = await self._read_page()
                if (held_s := self._find_hold(page)) > 0:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(held_s):
                            await watch.wait_for_change()
                    continue
                if self.learns_headers and (page.ended or _has_content(page)):
                    await self._learn_headers()
                for entry in page.entries:
                    frames = select_frames_after(entry, self._after)
                    self._after = entry.last
                    self.has_content = self.has_content or entry.last > LAST_OPENING_EVENT
                    self._detect_end(frames)
                    yield pad_frames(frames) if self._obfuscates else frames
                if page.ended and not self.ended:
                    raise NotFound(f"Response with id '{self._response_id:.80}' was deleted.")
                if not page.has_more and not self.ended:
                    await watch.wait_for_change()

    def fail(self, error: Exception) -> bytes:
        """Returns an `error` event and [DONE]; nothing if the terminal event was replayed."""
        if self.ended:
            return b""
        error_object = build_openai_error_body(error)["error"]
        event = {
            "type": "error",
            "sequence_number": max(self._after, 0),
            **error_object,
            "code": error_object["code"] or error_object["type"],
        }
        return sse.encode_event("error", orjson.dumps(event | {"type": "error"})) + sse.DONE_FRAME

    def conclude(self) -> bytes:
        """Returns [DONE], once, after `ended`. The terminal event came out of the log, where it was committed."""
        if not self.ended or self._is_concluded:
            return b""
        self._is_concluded = True
        return sse.DONE_FRAME

    def result(self) -> Json:
        """Returns the response in the terminal event, once ended."""
        response: Json = orjson.loads(self._last_frame.partition(b"\ndata: ")[2])["response"]
        return response

    def _find_hold(self, page: LogPage) -> float:
        """Returns for how long the events of a page are held back, in seconds."""
        if self.has_content or page.ended or _has_content(page):
            return 0.0
        return self._held_until - time.monotonic()

    async def _learn_headers(self) -> None:
        self.learns_headers = False
        stored = await self._store.responses.load_response(self._owner, self._response_id)
        if stored is not None:
            self.headers = stored.headers

    async def _read_page(self) -> LogPage:
        deadline = time.monotonic() + self._max_outage_s
        while True:
            try:
                return await self._store.event_log.load_log_page(self._owner, self._response_id, after=self._after)
            except StoreUnavailable:
                if time.monotonic() + _RETRY_S > deadline:
                    raise
            await asyncio.sleep(_RETRY_S)

    def _detect_end(self, frames: bytes) -> None:
        last = frames[frames.rfind(b"\n\n", 0, -2) + 2 if b"\n\n" in frames[:-2] else 0 :]
        if last[7 : last.find(b"\n")] in _TERMINAL_EVENTS:
            self._last_frame = last
            self.ended = True


def _has_content(page: LogPage) -> bool:
    return bool(page.entries) and page.entries[-1].last > LAST_OPENING_EVENT


async def open_log_replay(
    store: Store,
    owner: str,
    response_id: str,
    *,
    after: int | None,
    max_outage_s: float,
    obfuscates: bool = False,
    hold_s: float = 0.0,
) -> LogReplay:
    """Returns the replay of a response after event `after`; None replays all events.

    If its upstream is not known yet, the beginning is held back for `hold_s` seconds, see `LogReplay`.

    Raises NotFound for an unknown response. Raises InvalidRequest if the response has no event log, the log has been
    deleted, or the log has no event `after`.
    """
    stored = await store.responses.load_response(owner, response_id)
    if stored is None:
        raise NotFound(f"Response with id '{response_id:.80}' not found.")
    if not stored.logged:
        raise InvalidRequest(
            "This response cannot be streamed: it was created neither with `background` and `stream`, nor with "
            "`resumable`.",
            param="stream",
        )
    # The page includes the last event that the client has, to check that it exists.
    page = await store.event_log.load_log_page(owner, response_id, after=-1 if after is None else after - 1)
    if not page.entries:
        start = await store.event_log.load_log_page(owner, response_id, after=-1)
        if not start.entries and stored.response["status"] not in ACTIVE_STATUSES:
            raise InvalidRequest(
                "The events of this response are no longer stored. Retrieve the response itself without `stream`.",
                param="stream",
            )
        raise InvalidRequest(
            f"Invalid value for 'starting_after': there is no event {after} in this stream.", param="starting_after"
        )
    last = -1 if after is None else after
    is_active = stored.response["status"] in ACTIVE_STATUSES
    awaits_upstream = is_active and stored.headers.upstream is None
    if awaits_upstream and _has_content(page):  # it may have come since the response was loaded
        awaits_upstream = False
        stored = await store.responses.load_response(owner, response_id) or stored
    replay = LogReplay(
        store,
        owner,
        response_id,
        after=last,
        max_outage_s=max_outage_s,
        obfuscates=obfuscates,
        hold_s=hold_s if awaits_upstream else 0.0,
    )
    replay.headers = stored.headers
    replay.learns_headers = awaits_upstream
    # A client that has the last event only gets [DONE].
    replay.ended = not is_active and page.entries[-1].last == after
    return replay


def select_frames_after(entry: LogEntry, after: int) -> bytes:
    """Returns the frames of an entry with sequence numbers above `after`."""
    skipped = after - entry.first + 1
    return entry.frames if skipped <= 0 else entry.frames.split(b"\n\n", skipped)[skipped]
