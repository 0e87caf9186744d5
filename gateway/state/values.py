"""The values that callers and the store exchange, and three failures of the store. Knows nothing of SQL."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from gateway.state.idempotency import KeyedRequest
from translation.hosted.approvals import NO_ANSWERS, ApprovalAnswers
from translation.representation.json_types import Item, Json

ACTIVE_STATUSES = ("queued", "in_progress")
"""The statuses of a response that has not ended."""

ENDED_WELL_STATUSES = ("completed", "incomplete")
"""The statuses of a response whose client has got its end, so that it can be continued."""

LAST_RUN_KEY: Final = "agui_run"
"""The key of a conversation's metadata that has the response id of the last run, if it is a thread of AG-UI."""

THREAD_ID_KEY: Final = "agui_thread"
"""The key of a conversation's metadata that has the beginning of the thread's id at its clients."""

THREAD_KEYS: Final = frozenset([LAST_RUN_KEY, THREAD_ID_KEY])
"""The keys of metadata that remain when a client replaces the metadata: a thread without them would begin anew."""

STATE_KEY: Final = "agui_state"
"""The key of a conversation that has the state of the thread, if there is one."""

MESSAGE_THREAD_KEY: Final = "messages_thread"
"""The key of a response with the data of a thread of the Messages API. Other responses do not have this key."""

THREAD_IN_FLIGHT: Final = "thread_continue_in_flight"
"""The code of the error if a message of such a thread is continued that has not ended, or is being continued."""

THREAD_ALREADY_CONTINUED: Final = "thread_already_continued"
"""The code of the error if a message of such a thread is continued a second time."""

Order: TypeAlias = Literal["asc", "desc"]


class SchemaMismatch(Exception):
    """The database's tables do not fit this version of the gateway. The message is one line and says what to do."""


class LeaseLost(Exception):
    """The worker no longer holds the response: it was cancelled, deleted, or claimed by another worker after the lease
    had expired."""


class UnknownCursor(Exception):
    """The list has no row with the id in `PageRequest.after`, or in `PageRequest.before`."""

    def __init__(self, param: Literal["after", "before"] = "after") -> None:
        super().__init__(param)
        self.param: Final = param


class StoredHeaders(NamedTuple):
    """The values of a reply's headers that are stored with it."""

    losses: str | None = None
    """The losses of its request: the value of `x-gateway-loss`."""
    upstream: str | None = None
    """The upstream that answered: the value of `x-gateway-upstream`."""


NO_HEADERS: Final = StoredHeaders()


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadTurn:
    """A response that is the next run of a thread of AG-UI, which is a conversation.

    `conversation` has the thread's items, and is created if it does not exist. `previous_run` is the response id of the
    last run that was known when this one was prepared, or None. Only the first `remaining_item_count` items of the
    conversation remain; None keeps all. `state` replaces the state of the thread; None removes it.
    """

    conversation: Json
    previous_run: str | None
    remaining_item_count: int | None = None
    state: Any = None


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
    headers: StoredHeaders = NO_HEADERS
    """The headers of its reply, as far as they are known."""
    answers: ApprovalAnswers = NO_ANSWERS
    """The approvals of calls that the request gives or denies. They are stored in the same transaction."""
    thread: ThreadTurn | None = None
    """The thread whose next run it is; None if it belongs to no thread."""
    continues_message: bool = False
    """Whether it continues its parent, a message of a thread. No other response may continue the same message."""
    keyed: KeyedRequest | None = None
    """The request, if it has an idempotency key. The key is stored in the same transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """The current state of a stored response."""

    response: Json
    logged: bool
    background: bool
    headers: StoredHeaders = NO_HEADERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A response that a worker has claimed in order to run it.

    `attempt` counts from 1. `last_sequence_number` is the last one in the event log, or -1 without any: events up to it
    may have been sent to clients by an earlier attempt. `progress` is the saved progress of its loop of a model and
    tools.
    """

    owner: str
    response_id: str
    request: Json
    attempt: int
    logged: bool
    last_sequence_number: int
    progress: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerShares:
    """How many of the places for jobs in one process an owner may have.

    `running` has the number of jobs that each owner runs there. `exempt` is an owner without a bound.
    """

    most: int
    running: Mapping[str, int]
    exempt: str | None = None

    def has_room(self, owner: str) -> bool:
        """Returns whether the owner may run a further job there, if a place is free."""
        return owner == self.exempt or self.running.get(owner, 0) < self.most


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCompletion:
    """The current state of a stored chat completion."""

    completion: Json
    headers: StoredHeaders = NO_HEADERS


class LogEntry(NamedTuple):
    """Whole server-sent event frames of consecutive events. `first` and `last` are their sequence numbers."""

    first: int
    last: int
    frames: bytes


class LogOpening(NamedTuple):
    """What is known of a response once its upstream is: it replaces what was stored when the response was accepted."""

    created: bytes
    """The frame of `response.created`, the first event of the log."""
    response: Json
    """The response in that event."""
    headers: StoredHeaders


class LogPage(NamedTuple):
    """Part of an event log.

    `has_more` says that further entries exist now. `ended` says that none will follow these, because the response has
    ended or is unknown.
    """

    entries: Sequence[LogEntry]
    has_more: bool
    ended: bool


class WeighedItems(list[Item]):
    """Stored items, and what they weigh as JSON (`dataplane/body_weight.py`)."""

    def __init__(self, items: Iterable[Item] = (), weight: int = 0) -> None:
        super().__init__(items)
        self.weight = weight


class HistoryTooLong(Exception):
    """A request continues more than the store may load for it. The message says how much, and names the limit."""


class History(NamedTuple):
    """The items of a chain of responses, oldest first.

    `status`, `usage` and `conversation_id` belong to the last response. Items that its conversation had before it are
    not included.
    """

    items: WeighedItems
    status: str
    usage: Json | None
    conversation_id: str | None = None


class PageRequest(NamedTuple):
    """The requested part of a list: at most `limit` rows, starting after the row whose id is `after`.

    Without `after`, the part starts with the first row in `order`. Lists that support `before` return the rows right
    before that one. A part with `is_bounded` may have fewer rows, so that it is no larger than `store.max_page_mb`.
    """

    after: str | None = None
    limit: int = 20
    order: Order = "desc"
    before: str | None = None
    is_bounded: bool = True


class Page(NamedTuple):
    """One part of a list, in the order of its `PageRequest`. `has_more` says whether rows follow the last one."""

    rows: Sequence[Json]
    has_more: bool
    weight: int = 0
    """The weight of the rows (`dataplane/body_weight.py`), which decides where work on them is done."""
