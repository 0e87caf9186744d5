"""From a body to a reply that can begin: checked, routed, joined with what was said before, planned."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gateway.config.settings import Settings
from gateway.errors import StoreUnavailable
from gateway.http.auth import Principal
from gateway.logs import note
from gateway.planning.body_views import NOTHING, SEALED_REASONING, Keeping, asked, keeping, shown
from gateway.planning.continuation import Continuation, NoPast, continuation
from gateway.planning.managed_context import with_threshold
from gateway.planning.plan import Relayed, make_plan
from gateway.planning.request_defaults import with_defaults
from gateway.planning.resolver import Resolver, Route
from gateway.replies.endpoints import ENDPOINTS, Endpoint, Identity, Presentation
from gateway.replies.recorder import CompletionRecording, Lease, ResponseRecording
from gateway.sealing.reply_seal import ReplySeal
from gateway.sealing.sealer import Sealer
from gateway.service.accepted_request import Opened
from gateway.service.run import Run
from gateway.state.store import Job, NewResponse, Store
from providers.new_id import new_id
from translation.errors import InvalidRequest
from translation.framing.sse import DEFAULT_MAX_FRAME_BYTES
from translation.representation.json_types import Item, Json
from translation.responses.initial_response import new_response
from translation.responses.storable_items import distinct

_MB = 1024 * 1024
_MAX_LOGGED_CHARS = 200


class Opening:
    """Opens requests of every endpoint. `store` None: nothing is kept, and state is refused by name."""

    def __init__(
        self, settings: Settings, resolver: Resolver, store: Store | None, lease: Lease | None, sealer: Sealer
    ) -> None:
        self._resolver = resolver
        self._sealer = sealer
        self._store = store
        self._lease = lease
        self._clock: Callable[[], int] = lambda: int(time.time())
        self._max_frame_bytes = {name: int(config.max_line_mb * _MB) for name, config in settings.providers.items()}
        self._reasoning_fields = frozenset(settings.server.reasoning_fields)

    async def open(
        self,
        endpoint: Endpoint,
        principal: Principal,
        body: Json,
        *,
        strict: bool,
        local: Mapping[str, Sequence[Item]] | None = None,
    ) -> Opened:
        """Check, route and plan a body; nothing is sent and nothing written.

        `local`: response id -> everything up to it, for what a connection keeps. Raises InvalidRequest, UnknownModel,
        NotFound, StoreUnavailable.
        """
        endpoint.validate(body)
        if not body.get("model"):
            raise InvalidRequest("model is required", param="model", code="missing_required_parameter")
        if endpoint.dialect == "responses":
            route = self._resolver.resolve(body["model"], principal.models, (self._sealer, principal.name))
        else:
            route = self._resolver.resolve(body["model"], principal.models)
        note(model=route.name[:_MAX_LOGGED_CHARS], provider=route.provider.name)
        if route.request_defaults:
            body = with_defaults(body, route.request_defaults, endpoint.dialect)
            endpoint.validate(body)
        if body.get("context_management") and endpoint.dialect == "responses":
            body = await with_threshold(body, route)
        identity = Identity(new_id(endpoint.id_prefix), self._clock(), route.name)
        if self._store is None and local is None:
            view = shown(endpoint.dialect, body, NOTHING)
            return Opened(self._run(endpoint, view, body, identity, route, strict=strict))
        kept = NOTHING
        if self._store is not None:
            kept = keeping(endpoint.dialect, body, resumable=route.resumable)
        if kept.stored and self._store is not None and self._store.degraded is not None:
            # Known before anything is spent on an answer that could not be kept.
            raise StoreUnavailable
        if self._store is not None and endpoint.dialect == "chat":
            return self._open_chat(self._store, endpoint, principal.name, body, identity, route, kept, strict=strict)
        state = await continuation(self._store or NoPast(), principal.name, body, local)
        view, request = shown("responses", body, kept), asked("responses", body, route, kept, state)
        run = self._run(
            endpoint,
            view,
            request,
            identity,
            route,
            strict=strict,
            kept=kept,
            earlier=state.earlier,
            tokens=state.tokens,
        )
        opened = Opened(run=run, context=state.context)
        if not kept.stored:
            return opened
        new = self._new_response(opened, principal, view, kept, state)
        if not kept.detached:
            assert self._store is not None
            assert self._lease is not None
            return replace(opened, recording=ResponseRecording(self._store, self._lease, new, run.losses))
        job = {
            "dialect": endpoint.dialect,
            "models": list(principal.models),
            "strict": strict,
            "created": identity.created,
            "shown": {name: value for name, value in view.items() if name != "input"},
            "asked": request,
            "earlier": state.earlier,
            "tokens": state.tokens,
        }
        return replace(opened, job=replace(new, job=job))

    def reopen(self, job: Job) -> Opened:
        """A job's reply from its start, under the id and the time it has. Raises what `open` does."""
        request = job.request
        endpoint = ENDPOINTS[request["dialect"]]
        asked_for = request["asked"]["model"]
        route = self._resolver.resolve(asked_for, request["models"], (self._sealer, job.owner))
        note(model=route.name[:_MAX_LOGGED_CHARS], provider=route.provider.name)
        identity = Identity(id=job.response_id, created=request["created"], model=route.name)
        run = self._run(
            endpoint,
            request["shown"],
            request["asked"],
            identity,
            route,
            strict=request["strict"],
            kept=Keeping(stored=True),
            earlier=request["earlier"],
            tokens=request.get("tokens"),
        )
        return Opened(run=run)

    def _open_chat(
        self,
        store: Store,
        endpoint: Endpoint,
        owner: str,
        body: Json,
        identity: Identity,
        route: Route,
        kept: Keeping,
        *,
        strict: bool,
    ) -> Opened:
        request = asked("chat", body, route, kept, None)
        run = self._run(endpoint, body, request, identity, route, strict=strict, kept=kept)
        if not kept.stored:
            return Opened(run=run)
        return Opened(run=run, recording=CompletionRecording(store, owner, body, run.losses))

    def _new_response(
        self, opened: Opened, principal: Principal, view: Json, kept: Keeping, state: Continuation
    ) -> NewResponse:
        identity = opened.run.identity
        head = new_response(view, response_id=identity.id, created_at=identity.created, model=identity.model)
        return NewResponse(
            owner=principal.name,
            response=head | {"status": "queued"} if kept.background else head,
            # What only the connection knew is nobody else's history.
            items=distinct(state.own if state.parent_id or state.conversation_id else state.context, new_id),
            parent_id=state.parent_id,
            conversation_id=state.conversation_id,
            logged=kept.logged,
            worker=self._lease.worker if self._lease else None,
            losses=opened.run.losses(),
        )

    def _run(
        self,
        endpoint: Endpoint,
        view: Json,
        request: Json,
        identity: Identity,
        route: Route,
        *,
        strict: bool,
        kept: Keeping = NOTHING,
        earlier: int | None = None,
        tokens: int | None = None,
    ) -> Run:
        plan = make_plan(endpoint, request, route, strict=strict, earlier=earlier, tokens=tokens)
        max_frame_bytes = self._max_frame_bytes.get(route.provider.name, DEFAULT_MAX_FRAME_BYTES)
        presentation = Presentation(self._reasoning_fields, max_frame_bytes, self._clock)
        presentation.kept = kept.stored
        presentation.scrub = route.provider.scrub
        if route.name != route.upstream_model:
            presentation.relay_model = route.name
        if route.carrier is not None:
            presentation.seal = ReplySeal(route.carrier, SEALED_REASONING in (view.get("include") or ()))
        if isinstance(plan, Relayed):
            presentation.calls = plan.calls
        return Run(endpoint, view, identity, presentation, plan)
