"""The protocols of the store and the values that they exchange. Knows nothing of SQL.

Every read and write names an owner: an object of another owner reads as unknown. Every method may raise
`StoreUnavailable`, at the latest after `store.deadline_s`. Its changes are then stored completely or not at all.
JSON objects are returned as they were stored, key order included.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gateway.state.added_servers import AddedServerStore
from gateway.state.approvals import ApprovalStore
from gateway.state.call_records import CallJournal, OpenCallStore
from gateway.state.grants import GrantStore
from gateway.state.idempotency import KeyedRequest, KeyStore
from gateway.state.owner_usage import OwnerMeter
from gateway.state.paging import Page, PageRequest
from gateway.state.retention import Retention
from gateway.state.threads import ThreadTurn
from translation.hosted.approvals import NO_ANSWERS, ApprovalAnswers
from translation.representation.json_types import Item, Json

ACTIVE_STATUSES = ("queued", "in_progress")
"""The statuses of a response that has not ended."""

ENDED_WELL_STATUSES = ("completed", "incomplete")
"""The statuses of a response whose client has got its end, so that it can be continued."""


class SchemaMismatch(Exception):
    """The database's tables do not fit this version of the gateway. The message is one line and says what to do."""


class LeaseLost(Exception):
    """The worker no longer holds the response: it was cancelled, deleted, or claimed by another worker after the lease
    had expired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewResponse:
    """A response that starts, as `create_response` stores it."""

    owner: str
    response: Json
    """The response object of the event `response.created`: `status` is queued or in_progress, `output` is empty."""
    input_items: Sequence[Item]
    """The input items of this request, without its history. Each has an `id`."""
    parent_id: str | None = None
    conversation_id: str | None = None
    logged: bool = False
    """Whether its events are stored in the event log, so that clients can resume its stream."""
    job_request: Json | None = None
    """The request that any replica needs to run the response from its start. None if the run ends with its HTTP request
    and so is no job."""
    worker: str | None = None
    """The id of the replica that runs it. With None, the first replica that claims the job runs it."""
    losses: str | None = None
    """The losses of the request, as the value of the header `x-gateway-loss`."""
    answers: ApprovalAnswers = NO_ANSWERS
    """The approvals of calls that the request gives or denies. They are stored in the same transaction."""
    thread: ThreadTurn | None = None
    """The thread that it is the next run of; None if it is of none."""
    continues_message: bool = False
    """Whether it continues a message of a thread, the parent. No other response may do that then."""
    keyed: KeyedRequest | None = None
    """The request, if it has an idempotency key. The key is stored in the same transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """The current state of a stored response. `losses` is the value of the header `x-gateway-loss`."""

    response: Json
    logged: bool
    background: bool
    losses: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A response that a worker has claimed in order to run it.

    `attempt` counts from 1. `last_sequence_number` is the last one in the event log, or -1 without any: events up to it
    may have been sent to clients by an earlier attempt. `progress` is how far its loop of a model and tools had come.
    """

    owner: str
    response_id: str
    request: Json
    attempt: int
    logged: bool
    last_sequence_number: int
    progress: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCompletion:
    """The current state of a stored chat completion."""

    completion: Json
    losses: str | None = None
    """The losses of its request, as the value of the header `x-gateway-loss`."""


class LogEntry(NamedTuple):
    """Whole server-sent event frames of consecutive events. `first` and `last` are their sequence numbers."""

    first: int
    last: int
    frames: bytes


class LogPage(NamedTuple):
    """Part of an event log.

    `has_more` says that further entries exist now. `ended` says that none will follow these, because the response has
    ended or is unknown.
    """

    entries: Sequence[LogEntry]
    has_more: bool
    ended: bool


class ResponseStore(Protocol):
    """Stores responses and their items. The history of a response is its chain of parents, which one query reads."""

    async def create_response(self, new: NewResponse) -> None:
        """Store a new response with its input items and its job. Its event log, if any, starts with `response.created`.

        Raises InvalidRequest if the parent has been deleted meanwhile, if the message that it continues is or was
        continued by another response, or if an approval has been answered meanwhile, RunInProgress if its thread has
        got another run meanwhile, and KeyTaken if another request with its idempotency key has begun meanwhile.
        """
        ...

    async def store_ended_response(self, new: NewResponse, response: Json, *, losses: str | None = None) -> None:
        """Store a response that was not stored before and has ended: `create_response` and `finish_response` in one.

        `response` is its end. `new` must have no job, event log, thread or key, and continue no message.
        Raises InvalidRequest if the parent has
        been deleted meanwhile.
        """
        ...

    async def finish_response(
        self,
        owner: str,
        response: Json,
        *,
        worker: str,
        last: LogEntry | None = None,
        losses: str | None = None,
        has_calls: bool = False,
    ) -> None:
        """Store the end of a response in one transaction.

        The transaction stores the response and its output items, appends `last` to the event log, appends the turn's
        items to the conversation, deletes the job, and with `has_calls` settles the calls in the journal. With `losses`
        None, the losses that `create_response` stored remain. Raises LeaseLost unless the response is active and held
        by this worker.
        """
        ...

    async def load_response(self, owner: str, response_id: str) -> StoredResponse | None:
        """Return a response, or None for an unknown id.

        If its worker died and no job remains to run it again, it reads as failed with the error code `interrupted`.
        """
        ...

    async def list_responses(self, owner: str, page: PageRequest) -> Page:
        """Return a page of the owner's responses, ordered by creation time. Raises UnknownCursor."""
        ...

    async def delete_response(self, owner: str, response_id: str) -> bool:
        """Delete a response, and stop it if it is a job. Returns whether it existed.

        Its items remain stored only as long as a later response of its chain needs them as history.
        """
        ...

    async def cancel_response(self, owner: str, response_id: str) -> StoredResponse | None:
        """End an active response with the status `cancelled`, whichever replica runs it.

        A response that has ended remains as it is. The event log gets its terminal event in the same transaction.
        Returns the response, or None for an unknown id.
        """
        ...

    async def list_input_items(self, owner: str, response_id: str, page: PageRequest) -> Page | None:
        """Return a page of the request's own input items, or None for an unknown id. Raises UnknownCursor."""
        ...

    async def load_history(self, owner: str, response_id: str) -> "History | None":
        """Return the items of the whole chain, up to and including this response's output, oldest first.

        They are read by one query. Returns None for an unknown id.
        """
        ...

    async def load_items(self, owner: str, item_ids: Sequence[str]) -> Mapping[str, Item]:
        """Return items of responses and conversations by their ids. Unknown ids are absent."""
        ...

    async def fail_orphaned_responses(self, *, is_only_process: bool = False) -> int:
        """Fail active responses without a job whose replica died, with the error code `interrupted`. Returns how many.

        `is_only_process` says that no other process uses this database. Every active response is then orphaned, and
        every job can be claimed again.
        """
        ...


class History(NamedTuple):
    """The items of a chain of responses, oldest first.

    `status`, `usage` and `conversation_id` are those of the last response. Items that its conversation had before it
    are not included.
    """

    items: Sequence[Item]
    status: str
    usage: Json | None
    conversation_id: str | None = None


class ConversationStore(Protocol):
    """Stores conversations and their items, in order. For an unknown conversation, methods return None or False."""

    async def create_conversation(self, owner: str, conversation: Json, items: Sequence[Item]) -> None: ...

    async def load_conversation(self, owner: str, conversation_id: str) -> Json | None: ...

    async def update_conversation(self, owner: str, conversation_id: str, metadata: Json) -> Json | None:
        """Replace the metadata. Returns the conversation after the change."""
        ...

    async def delete_conversation(self, owner: str, conversation_id: str) -> bool:
        """Delete a conversation and its items. Responses that were created in it keep their own items. Returns whether
        it existed."""
        ...

    async def add_conversation_items(self, owner: str, conversation_id: str, items: Sequence[Item]) -> bool:
        """Append items. Returns whether the conversation exists."""
        ...

    async def list_conversation_items(self, owner: str, conversation_id: str, page: PageRequest) -> Page | None:
        """Return a page of items, ordered by their position. Raises UnknownCursor."""
        ...

    async def load_conversation_history(self, owner: str, conversation_id: str) -> Sequence[Item] | None:
        """Return all items, oldest first, read by one query."""
        ...

    async def load_conversation_item(self, owner: str, conversation_id: str, item_id: str) -> Item | None: ...

    async def delete_conversation_item(self, owner: str, conversation_id: str, item_id: str) -> bool: ...


class CompletionStore(Protocol):
    """Stores chat completions: the completion object and the messages of its request. For an unknown id, methods return
    None or False."""

    async def store_completion(
        self, owner: str, completion: Json, messages: Sequence[Json], losses: str | None = None
    ) -> None:
        """Store a completion. The object has `metadata`, and every message has an `id`."""
        ...

    async def load_completion(self, owner: str, completion_id: str) -> StoredCompletion | None: ...

    async def list_completions(
        self, owner: str, page: PageRequest, *, model: str | None = None, metadata: Mapping[str, str] | None = None
    ) -> Page:
        """Return a page of completions, ordered by creation time.

        `model` selects those of one model, `metadata` those with all of its entries. Raises UnknownCursor.
        """
        ...

    async def update_completion(self, owner: str, completion_id: str, metadata: Json | None) -> StoredCompletion | None:
        """Replace the metadata. Returns the completion after the change."""
        ...

    async def delete_completion(self, owner: str, completion_id: str) -> bool: ...

    async def list_completion_messages(self, owner: str, completion_id: str, page: PageRequest) -> Page | None:
        """Return a page of the messages of its request. Raises UnknownCursor."""
        ...


class EventLog(Protocol):
    """The append-only log of a response's events, from which streams are served and resumed.

    An event is sent to clients only after it has been stored here.
    """

    async def append_log_entry(self, owner: str, response_id: str, entry: LogEntry, *, worker: str) -> None:
        """Append an entry. Returns once it is committed.

        Appends of many streams share a transaction. Appending the same entry again changes nothing, so a caller that
        got no result can retry. Raises LeaseLost.
        """
        ...

    async def load_log_page(self, owner: str, response_id: str, *, after: int) -> LogPage:
        """Return entries with sequence numbers above `after`, in order, at most as many as one read returns."""
        ...

    def watch_response(self, owner: str, response_id: str) -> AbstractAsyncContextManager["ChangeWatch"]:
        """Watch one response for changes that any replica makes."""
        ...


class ChangeWatch(Protocol):
    """A subscription to changes."""

    async def wait_for_change(self) -> None:
        """Wait until something may have changed since the last call, or until the polling interval has passed."""
        ...


class JobQueue(Protocol):
    """Queues background responses. Each job is leased to one replica at a time; `worker` is the id of a replica."""

    async def claim_jobs(self, worker: str, limit: int) -> Sequence[Job]:
        """Lease up to `limit` jobs to `worker`: new jobs, and jobs whose worker died.

        Their responses become in_progress.
        """
        ...

    async def mark_in_progress(self, owner: str, response_id: str, *, worker: str) -> None:
        """Change the status of this worker's response from queued to in_progress. Raises LeaseLost."""
        ...

    async def renew_lease(self, worker: str) -> None:
        """Extend the replica's lease to `background.lease_s` from now."""
        ...

    async def list_leased_responses(self, worker: str) -> frozenset[tuple[str, str]]:
        """Return (owner, response id) of the active responses that this worker holds.

        A response that it runs and that is absent here was cancelled, deleted or claimed by another worker.
        """
        ...

    async def release_jobs(self, worker: str, only: Collection[tuple[str, str]] | None = None) -> None:
        """Release the worker's jobs, so that other replicas can claim them at once.

        `only` selects jobs by (owner, response id). With None all are released, because this replica stops.
        """
        ...

    def watch_jobs(self) -> AbstractAsyncContextManager[ChangeWatch]:
        """Watch for new jobs, and for changes to running ones."""
        ...


class Store(
    ResponseStore,
    ConversationStore,
    CompletionStore,
    EventLog,
    CallJournal,
    OpenCallStore,
    JobQueue,
    ApprovalStore,
    GrantStore,
    AddedServerStore,
    KeyStore,
    OwnerMeter,
    Retention,
    Protocol,
):
    """The complete store, over one database."""

    async def open(self) -> None:
        """Connect and check the schema. Raises SchemaMismatch.

        An unreachable database is no error here: `degraded_reason` reports it, and later calls try again.
        """
        ...

    async def aclose(self) -> None: ...

    @property
    def sealing_key(self) -> bytes | None:
        """A secret that all users of this database share and that never changes. None until the database has been
        reached."""
        ...

    @property
    def degraded_reason(self) -> str | None:
        """What is wrong with the database, as text for `/readyz`. None if its last use succeeded."""
        ...
