"""Loads threads of AG-UI from the store before their next run, and marks threads with a run."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final

import orjson

from dataplane.sharing.work_pool import run_for_count
from gateway.errors import RunInProgress
from gateway.planning.continuation import refuse_long_history
from gateway.planning.resolver import Route
from gateway.state.store import Store
from gateway.state.values import ACTIVE_STATUSES, LAST_RUN_KEY, STATE_KEY, THREAD_ID_KEY, WeighedItems
from gateway.tools.approvals import ApprovalFactory
from translation.agui.agui_history import open_requests
from translation.agui.interrupts import CHANGED, DENIED, EXPIRED, RequestStates
from translation.agui.run import RunHead, choose_state
from translation.errors import InvalidRequest
from translation.hosted.approvals import ApprovalRecord
from translation.representation.json_types import Item, Json

_MAX_METADATA_CHARS: Final = 512
_ID_DIGITS: Final = 48


_REFUSALS: Final[Mapping[str, str]] = {"denied": DENIED, "expired": EXPIRED, "void": CHANGED}
"""State of an approval request -> the result of its call for the client. The run that answered it may have failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadLimits:
    """The limits of threads that are stored: the state of one has at most `max_state_bytes` as JSON."""

    max_state_bytes: int

    def require_storable(self, state: Any) -> None:
        """Raises InvalidRequest for a state that is too large to be stored."""
        size = len(orjson.dumps(state))
        if size > self.max_state_bytes:
            limit_kb = self.max_state_bytes / 1024
            raise InvalidRequest(
                f"the state has {size} bytes as JSON; at most {limit_kb:g} KiB are stored with a thread "
                "(server.max_agui_state_kb): send a smaller one, or forwardedProps.store: false",
                param="state",
                code="state_too_large",
            )


@dataclass(frozen=True, slots=True)
class StoredThread:
    """A thread as stored before a run. `records` are the records of the approval requests among its items."""

    conversation: Json
    previous_run: str | None = None
    items: WeighedItems = field(default_factory=WeighedItems)
    records: Mapping[str, ApprovalRecord] = field(default_factory=dict)
    calls: Mapping[str, Item] = field(default_factory=dict)
    """Approved calls of runs that failed afterwards, by the ids of their approval requests."""

    def keep_requesters(self, route: Route) -> Route:
        """Returns the route with the targets that understand an answer to the thread's open requests for approvals.

        Upstreams that run the tools themselves have made those without a record, and know of no others. If no target
        is left, because the configuration has changed, the route is unchanged.
        """
        requests = open_requests(self.items) if len(route.targets) > 1 else ()
        if not requests:
            return route
        is_foreign = any(item["id"] not in self.records for item in requests)
        targets = [target for target in route.serving_targets if target.runs_mcp == is_foreign]
        return route.keep_targets(targets) if targets else route

    def find_request_states(self, *, runs_tools: bool) -> RequestStates:
        """Returns the states of the approval requests. Without `runs_tools` the upstream knows them, and there are no
        records."""
        states = {request_id: record.state for request_id, record in self.records.items()}
        open_ids = {request_id for request_id, state in states.items() if state == "open"}
        if not runs_tools:
            open_ids |= {item["id"] for item in open_requests(self.items)} - states.keys()
        refused = {request_id: _REFUSALS[state] for request_id, state in states.items() if state in _REFUSALS}
        inputs = {
            request_id: record.requested_input
            for request_id, record in self.records.items()
            if record.requested_input is not None
        }
        return RequestStates(open_ids=open_ids, inputs=inputs, refused=refused, calls=self.calls)


def restore_state(body: Json, conversation: Json) -> RunHead:
    """Returns the head of a validated run, with the state of its thread if the client sent none."""
    head = RunHead.from_input(body)
    state = choose_state(body, conversation.get(STATE_KEY))
    return replace(head, state=state, is_state_restored=state is not head.state)


class RunningThreads:
    """The threads of owners that have a run in this process which is not stored."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str], object] = {}
        """Owner and thread -> an object that identifies the run."""

    def begin_run(self, owner: str, thread_id: str) -> Callable[[], None]:
        """Records that a thread has a run. Returns the function that ends it, which may be called more than once.

        Raises RunInProgress if the thread has a run already.
        """
        key, mark = (owner, thread_id), object()
        if key in self._runs:
            raise RunInProgress
        self._runs[key] = mark

        def end_run() -> None:
            # A run ends when its last event is sent, and again with its request. Between both the next run may begin.
            if self._runs.get(key) is mark:
                del self._runs[key]

        return end_run


async def load_agui_thread(store: Store, approvals: ApprovalFactory, owner: str, thread_id: str) -> StoredThread:
    """Loads a thread from the store. Raises RunInProgress, and StoreUnavailable."""
    conversation_id = derive_id("conv", owner, thread_id)
    conversation = await store.conversations.load_conversation(owner, conversation_id)
    if conversation is None:
        metadata = {THREAD_ID_KEY: thread_id[:_MAX_METADATA_CHARS]}
        created_at = int(time.time())
        new = {"id": conversation_id, "object": "conversation", "created_at": created_at, "metadata": metadata}
        return StoredThread(new)
    previous_run = (conversation.get("metadata") or {}).get(LAST_RUN_KEY)
    if previous_run is not None:
        previous = await store.responses.load_response(owner, previous_run)
        if previous is not None and previous.response["status"] in ACTIVE_STATUSES:
            raise RunInProgress
    with refuse_long_history("threadId"):
        items = await store.history.load_conversation_history(owner, conversation_id) or WeighedItems()
    requests = [item["id"] for item in await run_for_count(len(items), open_requests, items)]
    if not requests:
        return StoredThread(conversation, previous_run, items)
    records = await approvals.load_records(owner, requests)
    calls = await _load_approved_calls(store, owner, records)
    return StoredThread(conversation, previous_run, items, records, calls)


async def _load_approved_calls(store: Store, owner: str, records: Mapping[str, ApprovalRecord]) -> dict[str, Item]:
    """Returns the calls of approvals that were used by a failed run, which is not part of its thread."""
    calls: dict[str, Item] = {}
    for record in records.values():
        if record.state == "used" and record.answered_by is not None and record.id not in calls:
            stored = await store.responses.load_response(owner, record.answered_by)
            output = () if stored is None else stored.response["output"]
            calls |= {
                item["approval_request_id"]: item
                for item in output
                if item["type"] == "mcp_call" and item.get("approval_request_id") and item.get("status") != "incomplete"
            }
    return calls


def derive_id(prefix: str, *names: str) -> str:
    """Returns the gateway's id for an object with an id of the client's. It is the same on every replica."""
    digest = sha256("\0".join(names).encode(errors="surrogatepass")).hexdigest()
    return f"{prefix}_{digest[:_ID_DIGITS]}"
