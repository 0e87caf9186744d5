"""AG-UI runs: each is a request of the Responses API, whose history is that of its thread.

A thread is a conversation, and a run is a response. Their ids follow from those of the client, so a run that is sent
again is found, on any replica.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Final, Protocol

from starlette.responses import Response
from starlette.types import Scope

from gateway.errors import RunInProgress
from gateway.http.auth import Principal
from gateway.http.owner_counts import ON_END
from gateway.planning.request_defaults import apply_request_defaults
from gateway.planning.resolver import Resolver, Route
from gateway.replies.agui_reply import AGUI, AguiReplyEncoder, encode_stored_run
from gateway.replies.endpoints import Endpoint, Presentation, ReplyIdentity
from gateway.replies.event_stream import EventStreamReply
from gateway.service.accepted_request import AcceptedRequest
from gateway.service.admission import AdmittedRequest, RequestAdapter, ThreadRun
from gateway.state.store import ACTIVE_STATUSES, LAST_RUN_KEY, Store, ThreadTurn
from translation.agui.encode import AguiEncoder
from translation.agui.request_body import RunRequest, build_run_request
from translation.agui.run import RunHead
from translation.errors import InvalidRequest
from translation.representation.events import Finished, Started
from translation.representation.json_types import Item, Json
from translation.responses.initial_response import new_response
from translation.responses.schema.request import validate as validate_responses
from translation.responses.snapshot import Snapshot

_THREAD_KEY: Final = "agui_thread"
_MAX_METADATA_CHARS: Final = 512
_ID_DIGITS: Final = 48

_EVENT_STREAM_HEADERS: Final = {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}


class _StillInterrupted(Exception):
    """A run does not answer the interrupts of its thread, so that it cannot go on."""

    def __init__(self, requests: Sequence[Item]) -> None:
        super().__init__()
        self.requests = requests


class _StoredThread:
    """What is stored of a thread before a run."""

    def __init__(self, conversation: Json, previous_run: str | None, items: Sequence[Item]) -> None:
        self.conversation = conversation
        self.previous_run = previous_run
        self.items = items


class _Run:
    """One run: adapts its body, and makes its encoder. `thread` is None if nothing of it is stored."""

    def __init__(self, resolver: Resolver, response_id: str, thread: _StoredThread | None) -> None:
        self._resolver = resolver
        self._response_id = response_id
        self._thread = thread
        self._head: RunHead | None = None
        self._denied_ids: Sequence[str] = ()
        self.on_end: Callable[[], None] = lambda: None

    def default_model(self, allowed: Sequence[str]) -> str:
        return self._resolver.first_model(allowed)

    def adapt(self, body: Json, route: Route) -> AdmittedRequest:
        """Returns the Responses request of a validated run. Raises InvalidRequest, and _StillInterrupted."""
        self._head = RunHead.from_input(body)
        stored = () if self._thread is None else self._thread.items
        request = build_run_request(body, model=route.name, stored=stored)
        if request.unanswered:
            raise _StillInterrupted(request.unanswered)
        self._denied_ids = request.denied_ids
        admitted = AdmittedRequest({}, route, request.names, request.losses, self._build_thread_run(request))
        with admitted.renaming_params():
            responses_body = request.body
            if self._thread is not None:
                responses_body["conversation"] = self._thread.conversation["id"]
            validate_responses(responses_body)
            if route.request_defaults:
                responses_body = apply_request_defaults(responses_body, route.request_defaults, "responses")
                validate_responses(responses_body)
        return admitted._replace(body=responses_body)

    def _build_thread_run(self, request: RunRequest) -> ThreadRun | None:
        thread = self._thread
        if thread is None:
            return None
        kept = len(request.history)
        turn = ThreadTurn(
            conversation=thread.conversation,
            previous_run=thread.previous_run,
            kept_items=kept if kept < len(thread.items) else None,
        )
        return ThreadRun(self._response_id, request.history, turn)

    def build_encoder(self, view: Json, identity: ReplyIdentity, presentation: Presentation) -> AguiReplyEncoder:
        initial = new_response(view, response_id=identity.id, created_at=identity.created, model=identity.model)
        snapshot = Snapshot(initial, presentation.clock, presentation.item_seal)
        return AguiReplyEncoder(self.make_encoder(identity.id, identity.model), snapshot, self.on_end)

    def make_encoder(self, response_id: str, model: str, open_requests: Sequence[Item] = ()) -> AguiEncoder:
        assert self._head is not None
        return AguiEncoder(
            self._head,
            response_id=response_id,
            model=model,
            denied_ids=self._denied_ids,
            open_requests=open_requests,
        )


class Accept(Protocol):
    """Accepts a request, as `Intake.accept` does."""

    def __call__(
        self,
        endpoint: Endpoint,
        principal: Principal,
        body: Json,
        *,
        strict: bool,
        weight: int = 0,
        adapter: RequestAdapter | None = None,
    ) -> Awaitable[AcceptedRequest]: ...


class AguiRuns:
    """Serves runs. There is one per configuration. `store` is None if nothing is stored."""

    def __init__(
        self,
        accept: Accept,
        resolver: Resolver,
        store: Store | None,
        build_event_stream: Callable[..., EventStreamReply],
        running: set[tuple[str, str]],
    ) -> None:
        """`running` has the threads, of an owner, that have a run in this process which is not stored."""
        self._accept = accept
        self._resolver = resolver
        self._store = store
        self._build_event_stream = build_event_stream
        self._running = running

    async def serve(
        self, principal: Principal, body: Json, model: str | None, scope: Scope, *, weight: int, strict: bool
    ) -> Response:
        """Returns the events of a run; those of a run that was sent before are replayed.

        `model` is that of the path. Raises what `Intake.accept` raises, and RunInProgress.
        """
        body = _with_model(body, model)
        owner, thread_id, run_id = principal.name, body.get("threadId"), body.get("runId")
        thread: _StoredThread | None = None
        response_id = _derive_id("resp", owner, str(thread_id), str(run_id))
        is_stored = self._store is not None and (_props_of(body)).get("store") is not False
        if self._store is not None and is_stored and isinstance(thread_id, str) and isinstance(run_id, str):
            stored = await self._store.load_response(owner, response_id)
            if stored is not None:
                return self._replay(body, stored.response)
            thread = await _load_thread(self._store, owner, thread_id)
        run = _Run(self._resolver, response_id, thread)
        if thread is None:
            run.on_end = self._add_running((owner, str(thread_id)), scope)
        try:
            endpoint = replace(AGUI, encoder=run.build_encoder)
            accepted = await self._accept(endpoint, principal, body, strict=strict, weight=weight, adapter=run)
        except _StillInterrupted as interrupted:
            encoder = run.make_encoder(response_id, "", interrupted.requests)
            frames = encoder.feed([Started(""), Finished("stop")]) + encoder.conclude()
            return _event_stream_of(frames)
        if thread is not None:
            await accepted.store_beginning()
        truncates = accepted.run.body.get("truncation") == "auto"
        late_headers = accepted.loss_headers if truncates else None
        return self._build_event_stream(
            accepted.build_stream(), accepted.loss_headers(), accepted.recorder, late_headers
        )

    def _replay(self, body: Json, response: Json) -> Response:
        if response["status"] in ACTIVE_STATUSES:
            raise RunInProgress
        AGUI.validate(body)
        encoder = AguiEncoder(RunHead.from_input(body), response_id=response["id"], model=response["model"])
        return _event_stream_of(encode_stored_run(response, encoder))

    def _add_running(self, key: tuple[str, str], scope: Scope) -> Callable[[], None]:
        """Notes that a thread has a run, until the function that it returns is called, or the request ends."""
        if key in self._running:
            raise RunInProgress
        self._running.add(key)
        remove = partial(self._running.discard, key)
        before = scope.get(ON_END)

        def end_request() -> None:
            remove()
            if before is not None:
                before()

        scope[ON_END] = end_request
        return remove


def _with_model(body: Json, model: str | None) -> Json:
    """Returns the body with the model of its run: that of the path, or the forwarded one. Raises InvalidRequest."""
    forwarded = _props_of(body).get("model")
    if forwarded is not None and not (isinstance(forwarded, str) and forwarded):
        raise InvalidRequest("the model must be a name", param="forwardedProps.model", code="invalid_type")
    if model and forwarded and forwarded != model:
        raise InvalidRequest(
            f"the path has the model {model!r:.200}, so leave it out here, or send the same",
            param="forwardedProps.model",
        )
    return {**body, "model": model or forwarded}


def _props_of(body: Json) -> Mapping[str, object]:
    props = body.get("forwardedProps")
    return props if isinstance(props, dict) else {}


async def _load_thread(store: Store, owner: str, thread_id: str) -> _StoredThread:
    """Returns what is stored of a thread. Raises RunInProgress, and StoreUnavailable."""
    conversation_id = _derive_id("conv", owner, thread_id)
    conversation = await store.load_conversation(owner, conversation_id)
    if conversation is None:
        metadata = {_THREAD_KEY: thread_id[:_MAX_METADATA_CHARS]}
        created_at = int(time.time())
        new = {"id": conversation_id, "object": "conversation", "created_at": created_at, "metadata": metadata}
        return _StoredThread(new, None, ())
    previous_run = (conversation.get("metadata") or {}).get(LAST_RUN_KEY)
    if previous_run is not None:
        previous = await store.load_response(owner, previous_run)
        if previous is not None and previous.response["status"] in ACTIVE_STATUSES:
            raise RunInProgress
    items = await store.load_conversation_history(owner, conversation_id)
    return _StoredThread(conversation, previous_run, items or ())


def _derive_id(prefix: str, *names: str) -> str:
    """Returns the id of an object that the client has named. It is the same on every replica."""
    digest = sha256("\0".join(names).encode(errors="surrogatepass")).hexdigest()
    return f"{prefix}_{digest[:_ID_DIGITS]}"


def _event_stream_of(frames: bytes) -> Response:
    return Response(frames, media_type="text/event-stream", headers=_EVENT_STREAM_HEADERS)
