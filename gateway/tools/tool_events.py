"""Events about the progress of a response with tools: requests to the model, and the start, progress and end of calls.

They are extensions of the API, so a stream has them only if its request enables them: clients that check the type of
each event would refuse the stream.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeAlias

from translation.hosted.calls import HostedCall
from translation.hosted.outcomes import ToolOutcome
from translation.representation.events import Event, Opaque
from translation.representation.json_types import Json

PROGRESS_INTERVAL_S: Final = 0.25
"""The shortest time between two reports of progress in one response. Only the last progress in between is sent."""

_MESSAGE_CHARS: Final = 500

RedactBeginning: TypeAlias = Callable[[str, int], str]
"""Returns the beginning of a text without credentials, with at most this many characters."""


class ToolEvents:
    """The unsent events of one response: at most two for each running call, and its last progress."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._progress: dict[str, tuple[Json, RedactBeginning]] = {}
        self._began: dict[str, float] = {}
        self._progress_due = 0.0
        self._changed = asyncio.Event()

    def start_request(self, number: int) -> Event:
        """Returns the event of a request to the model, which is sent at once. `number` counts from 1."""
        return Opaque("responses", {"type": "gateway.request.started", "round": number})

    def start_call(self, call: HostedCall) -> None:
        """Reports that a call is sent."""
        self._began[call.item_id] = time.monotonic()
        self._add("gateway.tool.started", call)

    def report_progress(
        self, call: HostedCall, redact: RedactBeginning, progress: float, total: float | None, message: str | None
    ) -> None:
        """Reports the progress of a running call. It replaces progress that was not sent yet.

        `redact` removes credentials from the message when it is sent: most messages are replaced before.
        """
        if call.item_id not in self._began:
            return
        payload = _build_payload("gateway.tool.progress", call)
        self._progress[call.item_id] = payload | {"progress": progress, "total": total, "message": message}, redact
        self._changed.set()

    def end_call(self, call: HostedCall, outcome: ToolOutcome) -> None:
        """Reports that a call has its result. The item with the result may be sent later, after other items."""
        duration_ms = round((time.monotonic() - self._began.pop(call.item_id)) * 1000)
        self._progress.pop(call.item_id, None)
        status = "failed" if outcome.failed else "completed" if outcome.requested_input is None else "input_required"
        self._add("gateway.tool.result", call, status=status, duration_ms=duration_ms)

    def take(self) -> list[Event]:
        """Returns the events to send now, and removes them."""
        events, self._events = self._events, []
        if self._progress and time.monotonic() >= self._progress_due:
            self._progress_due = time.monotonic() + PROGRESS_INTERVAL_S
            events += [Opaque("responses", _redact_message(*noted)) for noted in self._progress.values()]
            self._progress.clear()
        if not self._progress:
            self._changed.clear()
        return events

    async def wait(self) -> None:
        """Waits until there are events to take."""
        await self._changed.wait()
        if not self._events:
            await asyncio.sleep(self._progress_due - time.monotonic())

    def _add(self, event_type: str, call: HostedCall, **more: object) -> None:
        self._events.append(Opaque("responses", _build_payload(event_type, call) | more))
        self._changed.set()


def _redact_message(payload: Json, redact: RedactBeginning) -> Json:
    message = payload["message"]
    return payload if message is None else payload | {"message": redact(message, _MESSAGE_CHARS)}


def _build_payload(event_type: str, call: HostedCall) -> Json:
    return {
        "type": event_type,
        "item_id": call.item_id,
        "output_index": call.index,
        "call_id": call.call_id,
        "server_label": call.key.server,
        "name": call.key.name,
    }
