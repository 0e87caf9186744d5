"""Loads the progress of an interrupted job: the events that it sent, and the calls of tools that it made."""

from collections.abc import Iterable
from typing import NamedTuple

from dataplane.sharing.work_pool import run_in_pool
from gateway.jobs.job_attempt import JobNotResumable
from gateway.replies.endpoints import Endpoint, ResponseForm, SentStream
from gateway.replies.log_replay import LAST_OPENING_EVENT
from gateway.service.run import Run
from gateway.state.call_records import CallRecord
from gateway.state.store import Store
from gateway.state.values import Job, LogEntry
from providers.new_id import new_id
from translation.framing import sse
from translation.hosted.interruptions.interruption import Interruption
from translation.hosted.interruptions.sent_output import SentOutput
from translation.representation.events import Event
from translation.representation.json_types import Json
from translation.responses.client.storable_items import to_storable_items
from translation.responses.upstream.decode import ResponsesDecoder


class InterruptedJob(NamedTuple):
    """A job that sent output before its process died."""

    sent_stream: SentStream
    interruption: Interruption
    records: dict[str, CallRecord]
    """The calls in its journal, by the ids of their items."""

    def extend_input(self, endpoint: Endpoint, body: Json) -> Json:
        """Returns the request with the items of the rounds that have ended."""
        form = endpoint.storage
        if not isinstance(form, ResponseForm):
            raise JobNotResumable
        own_items = to_storable_items(endpoint.request.read_facts(body).input_value, new_id)
        return form.set_input(body, [*own_items, *self.interruption.context_items])

    def continue_in(self, run: Run) -> None:
        """Makes a run of that request continue from here. Raises JobNotResumable if its tools can no longer be run."""
        if run.loop_io is None:
            raise JobNotResumable
        run.attempt.presentation.sent_stream = self.sent_stream
        run.loop_io.interruption = self.interruption
        run.loop_io.records = self.records


async def load_interrupted_job(store: Store, job: Job) -> InterruptedJob | None:
    """Returns the progress of a claimed job; None if it can be started anew without sending anything twice.

    Raises JobNotResumable if it can neither continue nor be started anew, and StoreUnavailable.
    """
    if job.last_sequence_number <= LAST_OPENING_EVENT:
        return None
    if not job.request.get("runs_tools"):
        raise JobNotResumable
    frames, decoder = sse.FrameDecoder(is_own=True), ResponsesDecoder(new_id)
    events: list[Event] = []

    def decode_entries(entries: Iterable[LogEntry]) -> None:
        for entry in entries:
            events.extend(decoder.decode_payloads([frame.payload for frame in frames.feed(entry.frames)]))

    last_sequence_number, has_more = -1, True
    while has_more:
        page = await store.event_log.load_log_page(job.owner, job.response_id, after=last_sequence_number)
        # Decoding takes some 10 µs for each event, and a log may be long: other requests run meanwhile.
        await run_in_pool(decode_entries, page.entries)
        last_sequence_number = page.entries[-1].last if page.entries else last_sequence_number
        has_more = page.has_more
    interruption = Interruption(job.progress, await run_in_pool(SentOutput, events))
    if not interruption.is_resumable:
        raise JobNotResumable
    records = await store.call_journal.load_calls(job.owner, job.response_id)
    return InterruptedJob(
        SentStream(events, last_sequence_number), interruption, {record.item["id"]: record for record in records}
    )
