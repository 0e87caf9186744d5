"""What the gateway asks of its store. Nothing is found without its owner; foreign reads as unknown.

Every method may raise `StoreUnavailable`, within `store.deadline_s`; what it was to write is then written whole or not
at all. JSON objects come back as they went in, key order included.
"""

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

from translation.representation.json_types import Item, Json

Order: TypeAlias = Literal["asc", "desc"]

ACTIVE_STATUSES = ("queued", "in_progress")
"""Statuses of responses that are not finished."""


class PageRequest(NamedTuple):
    """Which part of a list: at most `limit` rows beyond the one whose id is `after`."""

    after: str | None = None
    limit: int = 20
    order: Order = "desc"


class Page(NamedTuple):
    """Part of a list, in the order asked for."""

    rows: Sequence[Json]
    has_more: bool


class UnknownCursor(Exception):
    """The id in `PageRequest.after` is not in the list."""


class SchemaMismatch(Exception):
    """The database's tables are not those this version works with. Its one line says what to do."""


class LeaseLost(Exception):
    """The response is no longer this worker's: cancelled, deleted, or taken over when its lease had run out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewResponse:
    """A response at its beginning."""

    owner: str
    response: Json
    """As `response.created` shows it: `id`, `status` queued or in_progress, `output` empty."""
    input_items: Sequence[Item]
    """What this request itself said, each item with an `id`; not its history."""
    parent_id: str | None = None
    conversation_id: str | None = None
    logged: bool = False
    """Its events go to the log, so that its stream can be resumed."""
    job_request: Json | None = None
    """What any replica needs to run it from the start; None for what lives and dies with its HTTP request."""
    worker: str | None = None
    """The replica that runs it; None leaves a job to whoever claims it first."""
    losses: str | None = None
    """What the request loses on its way, as `x-gateway-loss` says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """A response as it is now."""

    response: Json
    logged: bool
    background: bool
    losses: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A response to run, claimed by this worker. `attempt` counts from 1; `told` is the last sequence number in the
    log, or -1: what a former attempt has told clients already."""

    owner: str
    response_id: str
    request: Json
    attempt: int
    logged: bool
    last_sequence_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCompletion:
    """A chat completion as it is now."""

    completion: Json
    losses: str | None = None
    """What its request lost on its way, as `x-gateway-loss` said it."""


class LogEntry(NamedTuple):
    """Whole frames of consecutive events, numbered `first` to `last`."""

    first: int
    last: int
    frames: bytes


class LogPage(NamedTuple):
    """Part of a log. `more`: there are further entries now. `ended`: there never will be, since the response has ended
    or is unknown."""

    entries: Sequence[LogEntry]
    has_more: bool
    ended: bool


class ResponseStore(Protocol):
    """Responses and the items they are made of. A response's history is its chain of parents, walked by one query."""

    async def create_response(self, new: NewResponse) -> None:
        """Write a response that begins, with its input items and its job; a log starts with `response.created`. Raises
        InvalidRequest when the parent has been deleted meanwhile."""
        ...

    async def finish_response(
        self, owner: str, response: Json, *, worker: str, last: LogEntry | None = None, losses: str | None = None
    ) -> None:
        """Write the end in one transaction: the response with its output items, `last` to the event log, the turn's
        items to its conversation, no job any more. `losses` None: what was said of them at the beginning. Raises
        NotHeld unless the response is active and this worker's."""
        ...

    async def load_response(self, owner: str, response_id: str) -> StoredResponse | None:
        """A response; one whose worker died reads failed, code `interrupted`, unless its job will be run again."""
        ...

    async def list_responses(self, owner: str, page: PageRequest) -> Page:
        """The owner's responses by time of creation. Raises UnknownCursor."""
        ...

    async def delete_response(self, owner: str, response_id: str) -> bool:
        """Forget a response, and stop it if it is a job; whether there was one. Its items stay as long as a later
        response of the chain needs them as history, and no longer."""
        ...

    async def cancel_response(self, owner: str, response_id: str) -> StoredResponse | None:
        """End an active response as `cancelled`, from whichever replica; one that has ended stays as it is. A log gets
        its terminal event in the same transaction."""
        ...

    async def list_input_items(self, owner: str, response_id: str, page: PageRequest) -> Page | None:
        """What the request itself said. Raises UnknownCursor."""
        ...

    async def load_history(self, owner: str, response_id: str) -> "History | None":
        """Every item up to and including this response's output, oldest first, by one query; None for unknown ids."""
        ...

    async def load_items(self, owner: str, item_ids: Sequence[str]) -> Mapping[str, Item]:
        """Items of responses or conversations by id, those that there are."""
        ...

    async def fail_orphaned_responses(self, *, is_only_process: bool = False) -> int:
        """Fail, code `interrupted`, what runs without a job on a replica that died; how many. `at_start`: no other
        process uses this database, so that whatever runs is dead; jobs are free to be claimed again."""
        ...


class History(NamedTuple):
    """`status`, `usage` and `conversation_id` are those of the response asked for; what its conversation held before it
    is not among the items."""

    items: Sequence[Item]
    status: str
    usage: Json | None
    conversation_id: str | None = None


class ConversationStore(Protocol):
    """Conversations and their items, in order."""

    async def create_conversation(self, owner: str, conversation: Json, items: Sequence[Item]) -> None: ...

    async def load_conversation(self, owner: str, conversation_id: str) -> Json | None: ...

    async def update_conversation(self, owner: str, conversation_id: str, metadata: Json) -> Json | None:
        """The conversation after the change."""
        ...

    async def delete_conversation(self, owner: str, conversation_id: str) -> bool:
        """Forget it and its items; responses made in it keep their own."""
        ...

    async def add_conversation_items(self, owner: str, conversation_id: str, items: Sequence[Item]) -> bool:
        """Append; whether there is such a conversation."""
        ...

    async def list_conversation_items(self, owner: str, conversation_id: str, page: PageRequest) -> Page | None:
        """Raises UnknownCursor."""
        ...

    async def load_conversation_history(self, owner: str, conversation_id: str) -> Sequence[Item] | None:
        """All its items, oldest first, by one query."""
        ...

    async def load_conversation_item(self, owner: str, conversation_id: str, item_id: str) -> Item | None: ...

    async def delete_conversation_item(self, owner: str, conversation_id: str, item_id: str) -> bool: ...


class CompletionStore(Protocol):
    """Stored chat completions: the object, and the messages that were asked with."""

    async def store_completion(
        self, owner: str, completion: Json, messages: Sequence[Json], losses: str | None = None
    ) -> None:
        """`completion` has `metadata`; every message has an `id`."""
        ...

    async def load_completion(self, owner: str, completion_id: str) -> StoredCompletion | None: ...

    async def list_completions(
        self, owner: str, page: PageRequest, *, model: str | None = None, metadata: Mapping[str, str] | None = None
    ) -> Page:
        """Those of one model, with all of these metadata. Raises UnknownCursor."""
        ...

    async def update_completion(self, owner: str, completion_id: str, metadata: Json | None) -> StoredCompletion | None:
        """The completion after the change."""
        ...

    async def delete_completion(self, owner: str, completion_id: str) -> bool: ...

    async def list_completion_messages(self, owner: str, completion_id: str, page: PageRequest) -> Page | None:
        """Raises UnknownCursor."""
        ...


class EventLog(Protocol):
    """The append-only source of resumable streams: what is not in it has not been sent."""

    async def append_log_entry(self, owner: str, response_id: str, entry: LogEntry, *, worker: str) -> None:
        """Raises NotHeld. Appends of many streams share a transaction. Appending the same entry again changes nothing:
        whoever was not answered may ask again."""
        ...

    async def load_log_page(self, owner: str, response_id: str, *, after: int) -> LogPage:
        """Entries with events numbered above `after`, in order, as many as are read at once."""
        ...

    def watch_response(self, owner: str, response_id: str) -> AbstractAsyncContextManager["ChangeWatch"]:
        """Hear of changes to one response, from whichever replica."""
        ...


class ChangeWatch(Protocol):
    """`await changed()` returns when something may have happened since the last time, or after the polling interval."""

    async def wait_for_change(self) -> None: ...


class JobQueue(Protocol):
    """Background work, leased to one replica at a time."""

    async def claim_jobs(self, worker: str, limit: int) -> Sequence[Job]:
        """Lease up to `limit` jobs, new ones and those whose worker died; their responses are in progress then."""
        ...

    async def mark_in_progress(self, owner: str, response_id: str, *, worker: str) -> None:
        """This worker's response is no longer queued but in progress. Raises NotHeld."""
        ...

    async def renew_lease(self, worker: str) -> None:
        """This replica lives for another `background.lease_s`."""
        ...

    async def list_leased_responses(self, worker: str) -> frozenset[tuple[str, str]]:
        """(owner, response id) of the active responses that are this worker's: those it runs and no longer holds were
        cancelled, deleted or taken over."""
        ...

    async def release_jobs(self, worker: str, only: Collection[tuple[str, str]] | None = None) -> None:
        """These of its jobs, given as (owner, response id), are free for others at once; without them all, since this
        replica stops."""
        ...

    def watch_jobs(self) -> AbstractAsyncContextManager[ChangeWatch]:
        """Hear of new jobs, and of changes to running ones."""
        ...


class Retention(Protocol):
    """What is forgotten, and everything of one owner."""

    async def delete_expired(self, *, before: int) -> int:
        """Delete what was created before an epoch second, except what later items still need as history; how many
        responses, conversations and completions went."""
        ...

    async def erase_owner(self, owner: str) -> int:
        """Delete everything of one owner, running or not; how many responses, conversations and completions it was."""
        ...

    def export_owner(self, owner: str) -> AsyncGenerator[Json, None]:
        """Everything of one owner, one object at a time: `{"object": ..., ...}` with its items or messages."""
        ...


class Store(ResponseStore, ConversationStore, CompletionStore, EventLog, JobQueue, Retention, Protocol):
    """All of it, over one database."""

    async def open(self) -> None:
        """Connect and check the schema. Raises SchemaMismatch. A database that is down is no failure here: `degraded`
        says so, and later calls try again."""
        ...

    async def aclose(self) -> None: ...

    @property
    def sealing_key(self) -> bytes | None:
        """A secret that whoever uses this database shares, the same for ever; None until the database was reached."""
        ...

    @property
    def degraded_reason(self) -> str | None:
        """What is wrong with the database right now, in words for `/readyz`; None when the last use of it went well."""
        ...
