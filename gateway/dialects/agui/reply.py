"""The reply to an AG-UI run: its events for the client, and the response that is stored."""

from collections.abc import Callable
from dataclasses import replace

from gateway.replies.endpoints import Endpoint, ResponseForm
from gateway.replies.wrappers import StoredReplyEncoder
from providers.base import Batch
from providers.new_id import new_id
from translation.agui.encode import AguiEncoder
from translation.agui.run_end import CANCELLED
from translation.agui.schema import validate
from translation.representation.events import Event, Failed, Finished, ItemEnded, ItemStarted, Usage
from translation.representation.json_types import Json
from translation.responses.client.snapshot import Snapshot
from translation.responses.upstream.decode import ResponsesDecoder


def build_agui_endpoint(responses: Endpoint) -> Endpoint:
    """Returns the Responses endpoint with the body of a run.

    Its encoder is set for each run, because it has the run's ids.
    """
    if not isinstance(responses.storage, ResponseForm):
        raise TypeError("a run of AG-UI is stored as a response")
    return replace(
        responses,
        param_names=replace(responses.param_names, overflow_input="messages"),
        request=responses.request.adapt_from(validate),
        relay=None,
        storage=replace(responses.storage, allows_jobs=False),
    )


class AguiReplyEncoder(StoredReplyEncoder[AguiEncoder]):
    """A FrameEncoder of one run. `response` is the response as it is stored.

    `on_end` is called before the end of the run is sent, because its client may then start the next run.
    """

    def __init__(self, encoder: AguiEncoder, snapshot: Snapshot, on_end: Callable[[], None] = lambda: None) -> None:
        super().__init__(encoder, snapshot)
        self._on_end = on_end

    def feed(self, batch: Batch) -> bytes:
        events: list[Event] = []
        for event in batch:
            # The client gets the items of the snapshot, whose encrypted reasoning is sealed.
            if isinstance(event, ItemEnded):
                item = self._snapshot.end_item(event)
                events.append(ItemEnded(event.index, item, event.status))
            elif isinstance(event, ItemStarted):
                events.append(ItemStarted(event.index, self._snapshot.start_item(event).start))
            else:
                self._snapshot.apply(event)
                events.append(event)
        return self._encoder.feed(events)

    def conclude(self) -> bytes:
        self._on_end()
        return self._encoder.conclude()


def encode_stored_run(response: Json, encoder: AguiEncoder) -> bytes:
    """Returns the events of a run that has ended, from its stored response."""
    # An incomplete response has all of its items, so the events before a failure are read from it as such.
    status = response["status"]
    has_failed = status in ("failed", CANCELLED)
    readable = {**response, "status": "incomplete", "error": None} if has_failed else response
    events = ResponsesDecoder(new_id).feed(readable)
    if isinstance(end := events[-1], Finished) and end.usage is not None:
        # A stored response has a zero for each count that the upstream did not report.
        usage = end.usage
        end.usage = Usage(usage.input, usage.output, usage.cache_read or None, None, usage.reasoning or None)
    if status == "failed":
        error = response["error"]
        events[-1] = Failed(error.get("type") or error["code"], error["message"])
    elif status == CANCELLED:
        events[-1] = Failed(CANCELLED, "the run was stopped")
    return encoder.feed(events) + encoder.conclude()
