"""AG-UI runs: each is a request of the Responses API, whose history is the thread.

A thread is a conversation, and a run is a response. Their ids are derived from the client's ids, so every replica finds
a run that is sent again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from gateway.dialects.agui.reply import AguiReplyEncoder, build_agui_endpoint, encode_stored_run
from gateway.dialects.agui.threads import (
    RunningThreads,
    StoredThread,
    ThreadLimits,
    derive_id,
    load_agui_thread,
    restore_state,
)
from gateway.errors import RunInProgress
from gateway.http.headers import headers_of
from gateway.http.owner_counts import ON_END
from gateway.planning.admitted_request import ThreadRun
from gateway.planning.resolver import Route
from gateway.replies.endpoints import Endpoint, Presentation, ReplyIdentity
from gateway.replies.event_stream import build_whole_event_stream
from gateway.service.admission import AdaptedRequest, ClientRequest, rename_params_in_errors
from gateway.service.idempotency.keys import KEY_HEADER
from gateway.service.served_models import ServedModels
from gateway.service.service import Service, is_strict
from gateway.state.store import Store
from gateway.state.values import ACTIVE_STATUSES, PageRequest, ThreadTurn
from gateway.tools.approvals import ResponseApprovals
from translation.agui.encode import AguiEncoder, RunInterrupts
from translation.agui.messages import repeats_question
from translation.agui.request_body import RunRequest, build_run_request
from translation.agui.run import RunHead, is_empty_state
from translation.errors import InvalidRequest
from translation.hosted.approvals import ApprovalRecord
from translation.representation.events import Finished, Started
from translation.representation.json_types import Item, Json
from translation.responses.client.initial_response import new_response
from translation.responses.client.snapshot import Snapshot

_COMPARED_ITEMS: Final = 100
"""The items of a run's own input that are compared with the messages of a run with its id. Runs with more are not
compared."""


class _InterruptsOpen(Exception):
    """A run does not answer the open interrupts of its thread, so it cannot continue."""

    def __init__(self, requests: Sequence[Item], problems: Mapping[str, str]) -> None:
        super().__init__()
        self.requests = requests
        self.problems = problems


class _AguiRun:
    """One AG-UI run: adapts its body, and makes its encoder. `thread` is None if nothing is stored."""

    def __init__(
        self,
        responses: Endpoint,
        models: ServedModels,
        response_id: str,
        thread: StoredThread | None,
        max_state_kb: float,
    ) -> None:
        self._responses = responses
        self._models = models
        self._limits = ThreadLimits(max_state_bytes=int(max_state_kb * 1024))
        self._response_id = response_id
        self._thread = thread
        self._head: RunHead
        self._results: Mapping[str, str] = {}
        self._approved_ids: Sequence[str] = ()
        self.on_end: Callable[[], None] = lambda: None
        self.approvals: ResponseApprovals | None = None
        """The approvals of the run, once it is accepted."""

    def choose_default_model(self, allowed: Sequence[str]) -> str:
        return self._models.find_default_model(allowed)

    def adapt(self, body: Json, route: Route) -> AdaptedRequest:
        """Returns the Responses request of a validated run. Raises InvalidRequest, and _InterruptsOpen."""
        if self._thread is None:
            self._head = RunHead.from_input(body)
            request = build_run_request(body, model=route.name)
        else:
            self._head = restore_state(body, self._thread.conversation)
            self._limits.require_storable(body.get("state"))
            body = {**body, "state": self._head.state}
            route = self._thread.keep_requesters(route)
            runs_tools = not route.target.runs_mcp
            request_states = self._thread.find_request_states(runs_tools=runs_tools)
            request = build_run_request(
                body, model=route.name, stored=self._thread.items, request_states=request_states, stores_state=True
            )
        if request.unanswered:
            raise _InterruptsOpen(request.unanswered, request.problems)
        self._results = request.results
        self._approved_ids = request.approved_ids
        thread_run = self._build_thread_run(request, self._head.state)
        with rename_params_in_errors(request.names):
            responses_body = request.body
            if self._thread is not None:
                responses_body["conversation"] = self._thread.conversation["id"]
            self._responses.request.validate(responses_body)
            if route.request_defaults:
                responses_body = self._responses.request.add_defaults(responses_body, route.request_defaults)
                self._responses.request.validate(responses_body)
        return AdaptedRequest(responses_body, route, request.names, request.losses, thread_run)

    def _build_thread_run(self, request: RunRequest, state: Any) -> ThreadRun | None:
        thread = self._thread
        if thread is None:
            return None
        history_length = len(request.history)
        turn = ThreadTurn(
            conversation=thread.conversation,
            previous_run=thread.previous_run,
            remaining_item_count=history_length if history_length < len(thread.items) else None,
            state=None if is_empty_state(state) else state,
        )
        return ThreadRun(self._response_id, request.history, turn)

    def build_encoder(self, view: Json, identity: ReplyIdentity, presentation: Presentation) -> AguiReplyEncoder:
        initial = new_response(view, response_id=identity.id, created_at=identity.created, model=identity.model)
        snapshot = Snapshot(initial, presentation.common.clock, presentation.item_seal)
        return AguiReplyEncoder(self.make_encoder(identity.id, identity.model), snapshot, self.on_end)

    def make_encoder(
        self,
        response_id: str,
        model: str,
        requests: Sequence[Item] = (),
        problems: Mapping[str, str] | None = None,
    ) -> AguiEncoder:
        return AguiEncoder(
            self._head,
            response_id=response_id,
            model=model,
            results=self._results,
            interrupts=RunInterrupts(
                expiry_of=self._expiry_of, open_requests=requests, approved_ids=self._approved_ids, problems=problems
            ),
        )

    def _expiry_of(self, request: Item) -> str | None:
        """Returns the expiry of an approval request of this or an earlier run; None if only an upstream knows it."""
        record = None if self._thread is None else self._thread.records.get(request["id"])
        own = None if self.approvals is None else self.approvals.expiries.get(request["id"])
        return _find_expiry(record) if own is None else _format_time(own / 1e6)


class AguiRuns:
    """Serves runs, as requests of the endpoint `responses`. There is one per server process."""

    def __init__(self, responses: Endpoint, service: Service) -> None:
        self._responses = responses
        self._endpoint = build_agui_endpoint(responses)
        self._service = service
        self._running = RunningThreads()

    async def serve(self, request: Request, model: str | None) -> Response:
        """Returns the events of a run. If the same run was sent before, its events are replayed.

        `model` is the model in the path, if there is one. Raises what `Service.serve_create` raises, and RunInProgress.
        """
        service = self._service
        headers = headers_of(request.scope)
        principal, strict = service.authenticate(request), is_strict(headers)
        body, _, weight = await service.read_sized_body(request)
        body = _with_model(body, model)
        owner, thread_id, run_id = principal.owner, body.get("threadId"), body.get("runId")
        thread: StoredThread | None = None
        response_id = derive_id("resp", owner, str(thread_id), str(run_id))
        parts = None if _props_of(body).get("store") is False else service.current.state.parts
        if parts is not None and isinstance(thread_id, str) and isinstance(run_id, str):
            store = parts.store
            stored = await store.responses.load_response(owner, response_id)
            if stored is not None:
                return await self._replay(store, owner, body, weight, stored.response)
            thread = await load_agui_thread(store, parts.approvals, owner, thread_id)
            weight += thread.items.weight
        max_state_kb = service.settings.server.max_agui_state_kb
        run = _AguiRun(self._responses, service.models, response_id, thread, max_state_kb)
        if thread is None:
            run.on_end = self._running.begin_run(owner, str(thread_id))
            _call_on_end(request.scope, run.on_end)
        try:
            endpoint = replace(self._endpoint, reply=replace(self._endpoint.reply, encoder=run.build_encoder))
            accepted = await service.accept(
                ClientRequest(endpoint, principal, body, strict, weight, run, has_key=KEY_HEADER in headers)
            )
        except _InterruptsOpen as interrupted:
            encoder = run.make_encoder(response_id, "", interrupted.requests, interrupted.problems)
            frames = encoder.feed([Started(""), Finished("stop")]) + encoder.conclude()
            return build_whole_event_stream(frames)
        run.approvals = accepted.approvals
        if thread is not None:
            await accepted.store_beginning()
        is_truncated = accepted.request.facts.context.is_truncated
        late_headers = accepted.build_late_headers if is_truncated or accepted.attempts is not None else None
        return service.build_event_stream(
            accepted.build_stream(), accepted.build_early_headers(), accepted.recorder, late_headers
        )

    async def _replay(self, store: Store, owner: str, body: Json, weight: int, response: Json) -> Response:
        if response["status"] in ACTIVE_STATUSES:
            raise RunInProgress
        await self._service.large_bodies.call_weighed(weight, self._endpoint.request.validate, body)
        compared = PageRequest(limit=_COMPARED_ITEMS, is_bounded=False)
        own_input = await store.responses.list_input_items(owner, response["id"], compared)
        if own_input is not None and not own_input.has_more:
            is_same = await self._service.large_bodies.call_weighed(
                weight, repeats_question, body["messages"], own_input.rows
            )
            if not is_same:
                raise InvalidRequest(
                    "a run with this runId was asked something else in this thread: send a new runId with each run",
                    param="runId",
                    code="run_id_reused",
                )
        requests = [item["id"] for item in response["output"] if item["type"] == "mcp_approval_request"]
        records = await store.approvals.load_approvals(owner, requests) if requests else {}
        conversation = await store.conversations.load_conversation(owner, derive_id("conv", owner, body["threadId"]))
        encoder = AguiEncoder(
            await self._service.large_bodies.call_weighed(weight, restore_state, body, conversation or {}),
            response_id=response["id"],
            model=response["model"],
            interrupts=RunInterrupts(
                expiry_of=lambda item: _find_expiry(records.get(item["id"])),
                # An interrupt that has been answered since must not be reported as open again.
                closed_ids={request_id for request_id, record in records.items() if record.state != "open"},
            ),
        )
        return build_whole_event_stream(encode_stored_run(response, encoder))


def _call_on_end(scope: Scope, end_run: Callable[[], None]) -> None:
    """Registers a function that is called at the end of the request, before those registered earlier."""
    before = scope.get(ON_END)

    def end_request() -> None:
        end_run()
        if before is not None:
            before()

    scope[ON_END] = end_request


def _with_model(body: Json, model: str | None) -> Json:
    """Returns the body with its model: from the path, the forwarded properties, or the body itself.

    Raises InvalidRequest for a model that is no name, and for two different ones.
    """
    for param, named in (("forwardedProps.model", _props_of(body).get("model")), ("model", body.get("model"))):
        if named is None:
            continue
        if not (isinstance(named, str) and named):
            raise InvalidRequest("the model must be a name", param=param, code="invalid_type")
        if model and named != model:
            raise InvalidRequest(
                f"the path or forwardedProps has the model {model!r:.200}, so leave it out here, or send the same",
                param=param,
            )
        model = named
    return {**body, "model": model}


def _props_of(body: Json) -> Mapping[str, object]:
    props = body.get("forwardedProps")
    return props if isinstance(props, dict) else {}


def _find_expiry(record: ApprovalRecord | None) -> str | None:
    return None if record is None else _format_time(record.expires_us / 1e6)


def _format_time(epoch_s: float) -> str:
    """Returns a time in the format of ISO 8601, in whole seconds."""
    return datetime.fromtimestamp(int(epoch_s), UTC).isoformat().replace("+00:00", "Z")
