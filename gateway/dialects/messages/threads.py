"""Threads of the Messages API in the store: a reply is a stored response, and the next turn continues it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from gateway.dialects.messages.thread_reply import ThreadRecorder, ThreadReply
from gateway.errors import StoreUnavailable, ThreadNotFound
from gateway.planning.continuation import drop_unfinished_calls, refuse_long_history
from gateway.replies.endpoints import Endpoint, ReplyIdentity
from gateway.replies.recorder import FindHeaders
from gateway.sealing.reply_seal import ReasoningSeal
from gateway.state.store import Lease, Store
from gateway.state.values import ACTIVE_STATUSES, ENDED_WELL_STATUSES, MESSAGE_THREAD_KEY, THREAD_IN_FLIGHT, NewResponse
from providers.new_id import new_id
from translation.errors import InvalidRequest
from translation.messages.client.lift import lift
from translation.messages.client.threads import (
    build_thread_state,
    lift_thread_turn,
    restore_thread_params,
)
from translation.representation.json_types import Item, Json
from translation.representation.turn import Turn
from translation.request_facts import RequestFacts
from translation.responses.client.initial_response import new_response
from translation.responses.client.storable_items import to_storable_items, with_distinct_ids


class MessageThread(NamedTuple):
    """A thread as stored before a turn. `previous_id` is None for a new thread."""

    items: Sequence[Item]
    state: Json
    previous_id: str | None
    tokens: int | None
    """The number of tokens of the items, as the usage of the last reply reports it; None if it is unknown."""
    weight: int = 0
    """The weight of the items (`dataplane/body_weight.py`)."""

    @property
    def has_turns(self) -> bool:
        return self.previous_id is not None

    def restore_body(self, body: Json) -> Json:
        return restore_thread_params(body, self.state) if self.has_turns else body

    def add_turn(
        self,
        endpoint: Endpoint,
        body: Json,
        facts: RequestFacts,
        identity: ReplyIdentity,
        seal: ReasoningSeal | None,
    ) -> "ThreadedMessage":
        return ThreadedMessage(self, endpoint, body, facts, identity, seal)


async def load_message_thread(store: Store, owner: str, thread: Json) -> MessageThread:
    """Returns what is stored of a thread, for the validated parameter `thread` of a request.

    Raises ThreadNotFound for a reply that is unknown, deleted, another owner's, not of a thread, or has failed;
    InvalidRequest for a reply that has not ended; StoreUnavailable.
    """
    if store.degraded_reason is not None:
        # Fail early: a reply that cannot be stored is not worth the cost of an upstream request.
        raise StoreUnavailable
    if thread["type"] == "create":
        return MessageThread((), {}, None, None)
    previous_id = thread["previous_message_id"]
    previous = await store.responses.load_response(owner, previous_id)
    if previous is None or MESSAGE_THREAD_KEY not in previous.response:
        raise _build_thread_error(previous_id)
    if previous.response["status"] in ACTIVE_STATUSES:
        raise InvalidRequest(
            f"The message '{previous_id:.80}' has not ended: wait for its end, or create a new thread with the whole "
            "conversation.",
            param="thread.previous_message_id",
            code=THREAD_IN_FLIGHT,
        )
    with refuse_long_history("thread.previous_message_id"):
        stored = await store.history.load_history(owner, previous_id)
    if stored is None or stored.status not in ENDED_WELL_STATUSES:
        raise _build_thread_error(previous_id)
    items, tokens = drop_unfinished_calls(stored.items), (stored.usage or {}).get("total_tokens")
    return MessageThread(items, previous.response[MESSAGE_THREAD_KEY], previous_id, tokens, stored.items.weight)


def _build_thread_error(message_id: str) -> ThreadNotFound:
    return ThreadNotFound(
        f"No thread has the message '{message_id:.80}': create a new one with the whole conversation.",
        param="thread.previous_message_id",
    )


class ThreadedMessage:
    """A request as the next turn of a thread: its endpoint, and the recorder of its response."""

    def __init__(
        self,
        history: MessageThread,
        endpoint: Endpoint,
        body: Json,
        facts: RequestFacts,
        identity: ReplyIdentity,
        seal: ReasoningSeal | None,
        *,
        reply: ThreadReply | None = None,
    ) -> None:
        """Lifts a body that has what the thread keeps. `reply` is given if another target of the same request has it.
        Raises InvalidRequest."""
        self._history = history
        self._endpoint = endpoint
        self._facts = facts
        self._identity = identity
        self._body = body
        self._servers = facts.tools.servers
        turn = lift_thread_turn(body)
        if seal is not None:
            turn = seal.remove_foreign_content(turn)
        self._turn = turn
        self._response = self._build_response(identity)
        self._reply = reply or ThreadReply(endpoint, self._response)

    def fit_to_seal(self, seal: ReasoningSeal | None) -> "ThreadedMessage":
        """Returns the turn for another target of its request. Both have one reply, which one recorder stores."""
        return ThreadedMessage(
            self._history, self._endpoint, self._body, self._facts, self._identity, seal, reply=self._reply
        )

    def build_endpoint(self) -> Endpoint:
        """Returns the Messages endpoint for this turn alone, whose lifted turn begins with the history."""
        return self._reply.build_endpoint(self._lift)

    @property
    def history_count(self) -> int:
        """The number of items that the lifted turn begins with and the request does not have."""
        return len(self._history.items)

    @property
    def history_tokens(self) -> int | None:
        """The number of tokens of the history, if it is known."""
        return self._history.tokens

    def make_recorder(
        self, store: Store, lease: Lease, owner: str, find_headers: FindHeaders, *, begin_delay_s: float
    ) -> ThreadRecorder:
        """Returns the recorder that stores the turn's response while it is produced."""
        new = NewResponse(
            owner=owner,
            response=self._response,
            input_items=with_distinct_ids(to_storable_items(self._turn.items, new_id), new_id),
            parent_id=self._history.previous_id,
            continues_message=self._history.previous_id is not None,
            worker=lease.worker,
            headers=find_headers(),
        )
        return ThreadRecorder(self._reply, store, lease, new, find_headers, begin_delay_s=begin_delay_s)

    def _lift(self, body: Json, *, relayed: bool = False, model: str | None = None) -> Turn:
        if relayed:
            return lift(body, relayed=True)  # refuses the thread, because the upstream would have to store it
        turn = self._turn
        items = [*self._history.items, *turn.items]
        return replace(turn, model=turn.model if model is None else model, items=items)

    def _build_response(self, identity: ReplyIdentity) -> Json:
        turn = self._turn
        parameters: Json = {
            "instructions": turn.instructions,
            "max_output_tokens": turn.max_output_tokens,
            "parallel_tool_calls": turn.parallel_tool_calls,
            "previous_response_id": self._history.previous_id,
            "store": True,
            "tool_choice": turn.tool_choice,
            "tools": [*turn.tools, *self._servers],
            **turn.sampling,
        }
        response = new_response(parameters, response_id=identity.id, created_at=identity.created, model=identity.model)
        previous_state = self._history.state if self._history.previous_id else None
        return {**response, MESSAGE_THREAD_KEY: build_thread_state(self._body, previous_state)}
