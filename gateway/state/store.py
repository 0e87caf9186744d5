"""The protocols of the store, and writes that outlast an outage of it. Knows nothing of SQL.

Every read and write names an owner: an object of another owner reads as unknown. Every method may raise
`StoreUnavailable`, at the latest after `store.deadline_s`. Its changes are then stored completely or not at all. JSON
objects are returned as they were stored, key order included.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol

from gateway.errors import StoreUnavailable
from gateway.histograms import Histogram
from gateway.state.call_records import ApprovalStore, CallJournalStore, OpenCallStore
from gateway.state.file_records import FileStore
from gateway.state.idempotency import KeyStore
from gateway.state.operator_records import AddedServerStore, GrantStore
from gateway.state.owner_data import OwnerData, Retention
from gateway.state.prompt_records import PromptStore
from gateway.state.upload_records import UploadStore
from gateway.state.values import (
    NO_HEADERS,
    History,
    Job,
    LogEntry,
    LogOpening,
    LogPage,
    NewResponse,
    OwnerShares,
    Page,
    PageRequest,
    StoredCompletion,
    StoredHeaders,
    StoredResponse,
    WeighedItems,
)
from gateway.state.vector_records import EmbeddingQueue, IndexingQueue, VectorStores
from translation.representation.json_types import Item, Json

_DELAYS_S: Final = (0.05, 1.0)
"""The first delay between two attempts, and the longest."""


class ResponseStore(Protocol):
    """Stores responses and their items. The history of a response is its chain of parents, which one query reads."""

    async def create_response(self, new: NewResponse) -> None:
        """Stores a new response with its input items and its job.

        Its event log, if any, starts with `response.created`.

        Raises InvalidRequest if the parent has been deleted meanwhile, if the message that it continues is or was
        continued by another response, or if an approval has been answered meanwhile, RunInProgress if its thread has
        got another run meanwhile, and KeyTaken if another request with its idempotency key has begun meanwhile.
        """
        ...

    async def store_ended_response(
        self, new: NewResponse, response: Json, *, headers: StoredHeaders | None = None
    ) -> None:
        """Stores a response that was not stored before and has ended: `create_response` and `finish_response` in one.

        `response` is its end, and `headers` replace those of `new`. `new` must have no job, event log, thread or key,
        and continue no message. Raises InvalidRequest if the parent has been deleted meanwhile.
        """
        ...

    async def replace_beginning(self, owner: str, response: Json, *, worker: str, headers: StoredHeaders) -> None:
        """Replaces a response that runs, and its headers, by those of the upstream that has answered.

        Raises LeaseLost unless the response is active and held by this worker.
        """
        ...

    async def finish_response(
        self,
        owner: str,
        response: Json,
        *,
        worker: str,
        last: LogEntry | None = None,
        headers: StoredHeaders | None = None,
        has_calls: bool = False,
    ) -> None:
        """Stores the end of a response in one transaction.

        The transaction stores the response and its output items, appends `last` to the event log, appends the turn's
        items to the conversation, deletes the job, and with `has_calls` settles the calls in the journal. Without
        `headers` those that `create_response` stored remain. Raises LeaseLost unless the response is active and held by
        this worker.
        """
        ...

    async def load_response(self, owner: str, response_id: str) -> StoredResponse | None:
        """Returns a response, or None for an unknown id.

        If its worker died and no job remains to run it again, it reads as failed with the error code `interrupted`.
        """
        ...

    async def list_responses(self, owner: str, page: PageRequest) -> Page:
        """Returns a page of the owner's responses, ordered by creation time. Raises UnknownCursor."""
        ...

    async def delete_response(self, owner: str, response_id: str) -> bool:
        """Deletes a response, and stops it if it is a job. Returns whether it existed.

        Its items remain stored only as long as a later response of its chain needs them as history.
        """
        ...

    async def cancel_response(self, owner: str, response_id: str) -> StoredResponse | None:
        """Ends an active response with the status `cancelled`, whichever replica runs it.

        A response that has ended is not changed. The event log gets its terminal event in the same transaction. Returns
        the response, or None for an unknown id.
        """
        ...

    async def list_input_items(self, owner: str, response_id: str, page: PageRequest) -> Page | None:
        """Returns a page of the request's own input items, or None for an unknown id. Raises UnknownCursor."""
        ...


class HistoryReader(Protocol):
    """Reads what a new turn builds on: the history of a response or of a conversation, and items by their ids.

    Each method raises HistoryTooLong for more items or bytes than the configuration allows.
    """

    async def load_history(self, owner: str, response_id: str) -> History | None:
        """Returns the items of the whole chain, up to and including this response's output, oldest first.

        They are read by one query. Returns None for an unknown id.
        """
        ...

    async def load_items(self, owner: str, item_ids: Sequence[str]) -> Mapping[str, Item]:
        """Returns items of responses and conversations by their ids. Unknown ids are absent."""
        ...

    async def load_conversation_history(self, owner: str, conversation_id: str) -> WeighedItems | None:
        """Returns all items, oldest first, read by one query."""
        ...


class ConversationStore(Protocol):
    """Stores conversations and their items, in order. For an unknown conversation, methods return None or False."""

    async def create_conversation(self, owner: str, conversation: Json, items: Sequence[Item]) -> None: ...

    async def load_conversation(self, owner: str, conversation_id: str) -> Json | None: ...

    async def update_conversation(self, owner: str, conversation_id: str, metadata: Json) -> Json | None:
        """Replaces the metadata. Returns the conversation after the change."""
        ...

    async def delete_conversation(self, owner: str, conversation_id: str) -> bool:
        """Deletes a conversation and its items. Responses that were created in it keep their own items. Returns whether
        it existed."""
        ...

    async def add_conversation_items(self, owner: str, conversation_id: str, items: Sequence[Item]) -> bool:
        """Appends items. Returns whether the conversation exists."""
        ...

    async def list_conversation_items(self, owner: str, conversation_id: str, page: PageRequest) -> Page | None:
        """Returns a page of items, ordered by their position. Raises UnknownCursor."""
        ...

    async def load_conversation_item(self, owner: str, conversation_id: str, item_id: str) -> Item | None: ...

    async def delete_conversation_item(self, owner: str, conversation_id: str, item_id: str) -> bool: ...


class CompletionStore(Protocol):
    """Stores chat completions: the completion object and the messages of its request. For an unknown id, methods return
    None or False."""

    async def store_completion(
        self, owner: str, completion: Json, messages: Sequence[Json], headers: StoredHeaders = NO_HEADERS
    ) -> None:
        """Stores a completion. The object has `metadata`, and every message has an `id`."""
        ...

    async def load_completion(self, owner: str, completion_id: str) -> StoredCompletion | None: ...

    async def list_completions(
        self, owner: str, page: PageRequest, *, model: str | None = None, metadata: Mapping[str, str] | None = None
    ) -> Page:
        """Returns a page of completions, ordered by creation time.

        `model` selects completions of one model, `metadata` completions with all of its entries. Raises UnknownCursor.
        """
        ...

    async def update_completion(self, owner: str, completion_id: str, metadata: Json | None) -> StoredCompletion | None:
        """Replaces the metadata. Returns the completion after the change."""
        ...

    async def delete_completion(self, owner: str, completion_id: str) -> bool: ...

    async def list_completion_messages(self, owner: str, completion_id: str, page: PageRequest) -> Page | None:
        """Returns a page of the messages of its request. Raises UnknownCursor."""
        ...


class EventLog(Protocol):
    """The append-only log of a response's events, from which streams are served and resumed.

    An event is sent to clients only after it has been stored here.
    """

    async def append_log_entry(self, owner: str, response_id: str, entry: LogEntry, *, worker: str) -> None:
        """Appends an entry. Returns once it is committed.

        Appends of many streams share a transaction. Appending the same entry again changes nothing, so a caller that
        got no result can retry. Raises LeaseLost.
        """
        ...

    async def replace_opening(self, owner: str, response_id: str, opening: LogOpening, *, worker: str) -> None:
        """Replaces the first event of a log that has no other, the response in it, and its headers. Raises LeaseLost.

        It was stored for the upstream that was to be asked first, and another one has answered.
        """
        ...

    async def load_log_page(self, owner: str, response_id: str, *, after: int) -> LogPage:
        """Returns entries with sequence numbers above `after`, in order, at most as many as one read returns."""
        ...

    def watch_response(self, owner: str, response_id: str) -> AbstractAsyncContextManager["ChangeWatch"]:
        """Watches one response for changes that any replica makes."""
        ...


class Lease(Protocol):
    """The lease of this process on the responses that it works on.

    A response that the store assigns to this worker, and that the worker does not track, is ended as interrupted.
    """

    @property
    def worker(self) -> str:
        """The name under which this process holds responses in the store."""
        ...

    def track_response(self, owner: str, response_id: str) -> None:
        """Renews the lease for a response from now on."""
        ...

    def untrack_response(self, owner: str, response_id: str) -> None:
        """Stops renewing the lease for a response."""
        ...


class ChangeWatch(Protocol):
    """A subscription to changes."""

    async def wait_for_change(self) -> None:
        """Waits until something may have changed since the last call, or until the polling interval has passed."""
        ...


class JobQueue(Protocol):
    """Queues background responses. Each job is leased to one replica at a time; `worker` is the id of a replica."""

    async def claim_jobs(self, worker: str, limit: int, shares: OwnerShares | None = None) -> Sequence[Job]:
        """Leases up to `limit` jobs to `worker`: new jobs, and jobs whose worker died.

        Owners take turns, those first who run the fewest jobs of this worker, and the oldest job of an owner is its
        first. No owner gets more than its share. Their responses become in_progress.
        """
        ...

    async def mark_in_progress(self, owner: str, response_id: str, *, worker: str) -> None:
        """Changes the status of this worker's response from queued to in_progress. Raises LeaseLost."""
        ...

    async def renew_lease(self, worker: str) -> None:
        """Extends the replica's lease to `background.lease_s` from now."""
        ...

    async def list_leased_responses(self, worker: str) -> frozenset[tuple[str, str]]:
        """Returns (owner, response id) of the active responses that this worker holds.

        A response that it runs and that is absent here was cancelled, deleted or claimed by another worker.
        """
        ...

    async def release_jobs(self, worker: str, only: Collection[tuple[str, str]] | None = None) -> None:
        """Releases the worker's jobs, so that other replicas can claim them at once.

        `only` selects jobs by (owner, response id). With None all are released, because this replica stops.
        """
        ...

    async def fail_orphaned_responses(self, *, is_only_process: bool = False) -> int:
        """Fails active responses without a job whose replica died, with the error code `interrupted`. Returns how many.

        `is_only_process` says that no other process uses this database. Every active response is then orphaned, and
        every job can be claimed again.
        """
        ...

    def watch_jobs(self) -> AbstractAsyncContextManager[ChangeWatch]:
        """Watches for new jobs, and for changes to running ones."""
        ...


class Store(Protocol):
    """The complete store, over one database. Callers take the part that they use."""

    @property
    def responses(self) -> ResponseStore: ...

    @property
    def history(self) -> HistoryReader: ...

    @property
    def conversations(self) -> ConversationStore: ...

    @property
    def completions(self) -> CompletionStore: ...

    @property
    def event_log(self) -> EventLog: ...

    @property
    def jobs(self) -> JobQueue: ...

    @property
    def call_journal(self) -> CallJournalStore: ...

    @property
    def open_calls(self) -> OpenCallStore: ...

    @property
    def approvals(self) -> ApprovalStore: ...

    @property
    def grants(self) -> GrantStore: ...

    @property
    def added_servers(self) -> AddedServerStore: ...

    @property
    def idempotency_keys(self) -> KeyStore: ...

    @property
    def files(self) -> FileStore: ...

    @property
    def uploads(self) -> UploadStore: ...

    @property
    def vector_stores(self) -> VectorStores: ...

    @property
    def indexing(self) -> IndexingQueue: ...

    @property
    def embedding(self) -> EmbeddingQueue: ...

    @property
    def prompts(self) -> PromptStore: ...

    @property
    def owner_data(self) -> OwnerData: ...

    @property
    def retention(self) -> Retention: ...

    async def open(self) -> None:
        """Connects and checks the schema. Raises SchemaMismatch.

        An unreachable database is no error here: `degraded_reason` reports it, and later calls try again.
        """
        ...

    async def require_vectors(self) -> None:
        """Raises SchemaMismatch if vectors cannot be compared in this database, and StoreUnavailable."""
        ...

    async def aclose(self) -> None: ...

    @property
    def sealing_key(self) -> bytes | None:
        """A secret that all users of this database share and that never changes. None until the database has been
        reached."""
        ...

    @property
    def times(self) -> Mapping[str, Histogram]:
        """Seconds of the transactions that succeeded: those of kind `read` and `write`."""
        ...

    @property
    def degraded_reason(self) -> str | None:
        """The problem of the database, as text for `/readyz`. None if its last use succeeded."""
        ...


def start_detached_task(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Starts a task that continues if its waiter is cancelled. A failure is raised to the waiter, and not logged."""
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


async def retry_write(write: Callable[[], Awaitable[None]], max_outage_s: float) -> None:
    """Writes, and retries while the store is unavailable. Raises StoreUnavailable once that has lasted so long."""
    deadline = time.monotonic() + max_outage_s
    delay_s, longest_s = _DELAYS_S
    while True:
        try:
            return await write()
        except StoreUnavailable:
            if time.monotonic() + delay_s > deadline:
                raise
        await asyncio.sleep(delay_s)
        delay_s = min(delay_s * 2, longest_s)
