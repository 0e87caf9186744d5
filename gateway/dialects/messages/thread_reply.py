"""The reply to a turn of a thread of the Messages API: the message for the client, and the response that is stored."""

from collections.abc import Sequence
from dataclasses import replace

from dataplane.source import ReadTemplate
from gateway.replies.endpoints import Endpoint, Lift, Presentation, ReplyCollector, ReplyIdentity
from gateway.replies.recorder import FindHeaders, ForegroundRecorder
from gateway.replies.reply_streams import FrameEncoder
from gateway.replies.wrappers import StoredReplyEncoder
from gateway.state.store import Lease, Store
from gateway.state.values import NewResponse
from providers.base import Batch
from translation.representation.delta_runs import DeltaRun, TextObserver
from translation.representation.events import Failed
from translation.representation.json_types import Json
from translation.responses.client.snapshot import Snapshot


class ThreadReply:
    """Builds the reply of one turn. `initial_response` is the response as stored at its beginning."""

    def __init__(self, endpoint: Endpoint, initial_response: Json) -> None:
        self._endpoint = endpoint
        self._initial_response = initial_response
        self._snapshot: Snapshot | None = None

    @property
    def response(self) -> Json:
        """The response with the output that has been produced so far."""
        return self._initial_response if self._snapshot is None else self._snapshot.response

    def build_endpoint(self, lift: Lift) -> Endpoint:
        """Returns the Messages endpoint with this reply, for requests that `lift` lifts."""
        endpoint = self._endpoint
        return replace(
            endpoint,
            request=replace(endpoint.request, lift=lift),
            reply=replace(endpoint.reply, encoder=self._build_encoder, collector=self._build_collector),
        )

    def _build_encoder(self, body: Json, identity: ReplyIdentity, presentation: Presentation) -> "ThreadEncoder":
        encoder = self._endpoint.reply.encoder(body, identity, presentation)
        return ThreadEncoder(encoder, self._start_snapshot(presentation))

    def _build_collector(self, body: Json, identity: ReplyIdentity, presentation: Presentation) -> "ThreadCollector":
        collector = self._endpoint.reply.collector(body, identity, presentation)
        return ThreadCollector(collector, self._start_snapshot(presentation))

    def _start_snapshot(self, presentation: Presentation) -> Snapshot:
        self._snapshot = Snapshot(self._initial_response, presentation.common.clock, presentation.item_seal)
        return self._snapshot


class ThreadEncoder(StoredReplyEncoder[FrameEncoder]):
    """A FrameEncoder of messages that collects the response to store."""

    def feed(self, batch: Batch) -> bytes:
        self._snapshot.feed(batch)
        return self._encoder.feed(batch)

    def build_delta_template(self, run: DeltaRun, observers: Sequence[TextObserver]) -> ReadTemplate[bytes] | None:
        index, part_index = run.text_key
        append = self._snapshot.items[index].part_at(part_index).append
        return self._encoder.build_delta_template(run, (*observers, append))


class ThreadCollector:
    """A ReplyCollector of messages that collects the response to store."""

    def __init__(self, collector: ReplyCollector, snapshot: Snapshot) -> None:
        self._collector = collector
        self._snapshot = snapshot

    @property
    def failed(self) -> Failed | None:
        return self._collector.failed

    def feed(self, batch: Batch) -> None:
        self._snapshot.feed(batch)
        self._collector.feed(batch)

    def result(self) -> Json:
        """Returns the message, or the response of a failed turn, which has no message."""
        return self._collector.result() if self.failed is None else self._snapshot.response


class ThreadRecorder(ForegroundRecorder):
    """Stores the response of a turn, while the client gets a message."""

    def __init__(
        self,
        reply: ThreadReply,
        store: Store,
        lease: Lease,
        new: NewResponse,
        find_headers: FindHeaders,
        *,
        begin_delay_s: float,
    ) -> None:
        super().__init__(store, lease, new, find_headers, begin_delay_s=begin_delay_s)
        self._reply = reply

    async def finish(self, result: Json | None) -> None:
        await super().finish(self._reply.response)
