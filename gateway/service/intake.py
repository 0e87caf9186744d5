"""Accepts requests: validates the body, resolves its route, joins it with its history, and plans the turn.

Nothing is sent here. Nothing is stored, except the beginning of a message that continues another one of its thread.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gateway.config.settings import Settings
from gateway.errors import CredentialsNotStored, StoreUnavailable
from gateway.http.auth import Principal
from gateway.http.large_bodies import LargeBodyThreads
from gateway.jobs.job_credentials import JobCredentials
from gateway.planning.body_views import (
    NOT_STORED,
    StorageOptions,
    build_echoed_body,
    build_upstream_body,
    parse_storage_options,
)
from gateway.planning.continuation import Continuation, EmptyHistory, continue_thread, resolve_continuation
from gateway.planning.managed_context import fill_compaction_threshold
from gateway.planning.plan import find_tool_host, make_plan, require_no_loss, set_tool_options
from gateway.planning.resolver import Route
from gateway.replies.endpoints import Endpoint, LoadedThread, Presentation, ReplyIdentity
from gateway.replies.recorder import CompletionRecorder, ForegroundRecorder, Lease
from gateway.service.accepted_request import AcceptedRequest, build_job_request, build_new_response
from gateway.service.admission import Admission, AdmittedRequest, RequestAdapter
from gateway.service.idempotency.keys import KEY_IGNORED
from gateway.service.interrupted_jobs import load_interrupted_job
from gateway.service.provider_lifetimes import ProviderHold
from gateway.service.run import Run, adapt_presentation
from gateway.state.store import Store
from gateway.state.values import Job
from gateway.tools.approvals import ApprovalFactory, ResponseApprovals
from gateway.tools.exchange_factory import load_tool_library
from gateway.tools.host import ToolHost
from gateway.tools.response_journal import JournalFactory
from providers.new_id import new_id
from translation.framing.sse import DEFAULT_MAX_FRAME_BYTES
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss

_MB = 1024 * 1024

_NORMALIZED_WEIGHT = 2
"""The weight factor of bodies that are normalized first."""

_CONVERSATION_NOT_EXTENDED = Loss("conversation", "not extended")
"""The loss of a response that is not stored: it reads the conversation that it names, and adds nothing to it."""


class Intake:
    """Accepts requests of every API that models answer: Responses, Chat Completions, Messages, AG-UI, `/generate`,
    and the APIs of Gemini and Ollama.

    If `store` is None, nothing is stored. Parameters about stored state are then refused by name, except on a
    connection that keeps its own items. Every reply gets `provider_hold`. `tool_host` runs tools.
    """

    def __init__(
        self,
        settings: Settings,
        admission: Admission,
        threads: LargeBodyThreads,
        store: Store | None,
        lease: Lease | None,
        provider_hold: ProviderHold | None = None,
        tool_host: ToolHost | None = None,
        approvals: ApprovalFactory | None = None,
        job_endpoints: Mapping[str, Endpoint] | None = None,
    ) -> None:
        """`job_endpoints` are the endpoints whose replies may be jobs, by dialect."""
        self._admission = admission
        self._job_endpoints = job_endpoints or {}
        self._threads = threads
        self._store = store
        self._lease = lease
        self._provider_hold = provider_hold
        self._tool_host = tool_host
        self._approvals = approvals
        self._clock: Callable[[], int] = lambda: int(time.time())
        self._max_frame_bytes = {name: int(config.max_line_mb * _MB) for name, config in settings.providers.items()}
        self._reasoning_fields = frozenset(settings.server.reasoning_fields)
        self._buffers_sentences = settings.server.sentence_buffer
        self._reports_tools = settings.tools.events
        self._credentials = JobCredentials(settings.sealing.secrets)
        self._journals = JournalFactory(store, lease, max_outage_s=settings.background.lease_s)
        self._begin_delay_s = settings.store.begin_delay_ms / 1000

    async def accept(
        self,
        endpoint: Endpoint,
        principal: Principal,
        body: Json,
        *,
        strict: bool,
        weight: int = 0,
        connection_items: Mapping[str, Sequence[Item]] | None = None,
        adapter: RequestAdapter | None = None,
        has_key: bool = False,
    ) -> AcceptedRequest:
        """Validates, routes and plans a request body of this `weight`, without sending anything.

        For a heavy body this happens in a thread (`weigh_body`). `connection_items` maps response ids to all items up
        to and including that response, for responses that exist only on this connection. `adapter` turns requests of
        a small API into requests of the endpoint's dialect. With `has_key` a stored response is a job. Raises
        InvalidRequest, UnknownModel, NotFound and StoreUnavailable.
        """
        if endpoint.normalize is not None:
            weight *= _NORMALIZED_WEIGHT
        admitted = await self._threads.run(weight, self._admission.admit, endpoint, principal, body, adapter)
        body, route = admitted.body, admitted.route
        if has_key and (self._store is None or body.get("store") is False or endpoint.dialect != "responses"):
            admitted = admitted._replace(losses=[*admitted.losses, KEY_IGNORED])
        if route.must_be_listed:
            await self._admission.require_listed(route, principal)
        if body.get("context_management") and endpoint.dialect == "responses":
            body = await fill_compaction_threshold(body, route)
        thread = admitted.thread
        response_id = new_id(endpoint.id_prefix) if thread is None else thread.response_id
        identity = ReplyIdentity(response_id, self._clock(), route.name)
        tool_host = None
        if route.mcp_servers or body.get("tools") or (endpoint.dialect == "messages" and body.get("mcp_servers")):
            tool_host = await self._find_tool_host(endpoint, body, route, principal.mcp_servers)
        if (self._store is None and connection_items is None) or not endpoint.allows_storage:
            history = None
            if endpoint.load_thread is not None and self._store is not None:
                history = await endpoint.load_thread(self._store, principal.name, body)
            if history is not None:
                arguments = endpoint, principal.name, body, identity, admitted, history, tool_host
                accepted = await self._threads.run(weight, self._accept_thread, *arguments, strict=strict)
                if history.has_turns:
                    # Of two requests that continue one message, only one may reach the upstream.
                    await accepted.store_beginning()
                return accepted
            accepted = await self._threads.run(
                weight, self._accept_unstored, endpoint, body, identity, admitted, tool_host, strict=strict
            )
            if tool_host is not None:
                self._journals.add_open_call_journal(accepted.run.tool_run, principal.name, identity.id)
            return accepted
        storage = NOT_STORED
        if self._store is not None:
            resumable = route.resumable and endpoint.allows_jobs
            storage = parse_storage_options(endpoint.dialect, body, resumable=resumable, has_key=has_key)
        if storage.stored and self._store is not None and self._store.degraded_reason is not None:
            # Fail early: a reply that cannot be stored is not worth the cost of an upstream request.
            raise StoreUnavailable
        if self._store is not None and endpoint.dialect == "chat":
            return await self._threads.run(
                weight,
                self._accept_chat,
                self._store,
                endpoint,
                principal.name,
                body,
                identity,
                admitted,
                storage,
                tool_host,
                strict=strict,
            )
        if thread is None:
            stored = EmptyHistory() if self._store is None else self._store.history
            state = await resolve_continuation(stored, principal.name, body, connection_items)
        else:
            state = continue_thread(thread.history, body, thread.turn.conversation["id"])
        approvals = None
        if tool_host is not None and self._approvals is not None:
            labels = [*tool_host.list_labels(body.get("tools") or ()), *tool_host.list_usable_labels(route.mcp_servers)]
            approvals = await self._approvals.load(principal.name, identity.id, state.context, state.new_items, labels)
        inputs = endpoint, principal, body, identity, admitted, storage, state, tool_host, approvals
        return await self._threads.run(weight, self._accept_response, *inputs, strict=strict)

    async def _find_tool_host(
        self, endpoint: Endpoint, body: Json, route: Route, allowed_servers: Sequence[str]
    ) -> ToolHost | None:
        """Returns the host of the body's tools that its upstream does not run; None if there are none."""
        if self._tool_host is None:
            return None
        host = find_tool_host(endpoint, body, route, self._tool_host, allowed_servers)
        if host is not None:
            await load_tool_library()
        return host

    def _accept_unstored(
        self,
        endpoint: Endpoint,
        body: Json,
        identity: ReplyIdentity,
        admitted: AdmittedRequest,
        tool_host: ToolHost | None,
        *,
        strict: bool,
    ) -> AcceptedRequest:
        view = build_echoed_body(endpoint.dialect, body, NOT_STORED, admitted.route.profile)
        return AcceptedRequest(self._build_run(endpoint, view, body, identity, admitted, tool_host, strict=strict))

    def _accept_thread(
        self,
        endpoint: Endpoint,
        owner: str,
        body: Json,
        identity: ReplyIdentity,
        admitted: AdmittedRequest,
        history: LoadedThread,
        tool_host: ToolHost | None,
        *,
        strict: bool,
    ) -> AcceptedRequest:
        threaded = history.add_turn(endpoint, body, identity, admitted.route.reasoning_seal)
        run = self._build_run(
            threaded.build_endpoint(),
            body,
            body,
            identity,
            admitted,
            tool_host,
            strict=strict,
            storage=StorageOptions(stored=True),
            history_count=threaded.history_count,
            history_tokens=threaded.history_tokens,
        )
        assert self._store is not None
        assert self._lease is not None
        recorder = threaded.make_recorder(
            self._store, self._lease, owner, run.render_losses, begin_delay_s=self._begin_delay_s
        )
        if run.tool_run is not None:
            recorder.call_records = run.tool_run.journal = self._journals.make_journal(
                owner, identity.id, ensure_stored=recorder.wait_until_begun
            )
        return AcceptedRequest(run=run, recorder=recorder)

    def _accept_response(
        self,
        endpoint: Endpoint,
        principal: Principal,
        body: Json,
        identity: ReplyIdentity,
        admitted: AdmittedRequest,
        storage: StorageOptions,
        state: Continuation,
        tool_host: ToolHost | None,
        approvals: ResponseApprovals | None,
        *,
        strict: bool,
    ) -> AcceptedRequest:
        if state.conversation_id is not None and not storage.stored:
            admitted = admitted._replace(losses=[*admitted.losses, _CONVERSATION_NOT_EXTENDED])
        view = build_echoed_body("responses", body, storage, admitted.route.profile)
        request = build_upstream_body("responses", body, admitted.route, storage, state)
        run = self._build_run(
            endpoint,
            view,
            request,
            identity,
            admitted,
            tool_host,
            strict=strict,
            storage=storage,
            history_count=state.history_count,
            history_tokens=state.history_tokens,
            approvals=approvals,
        )
        accepted = AcceptedRequest(run=run, context=state.context, approvals=approvals)
        if not storage.stored:
            if tool_host is not None:
                self._journals.add_open_call_journal(run.tool_run, principal.name, identity.id)
            if approvals is not None:
                approvals.confirmation = approvals.store_answers
            return accepted
        worker = self._lease.worker if self._lease else None
        new = build_new_response(accepted, principal.name, view, storage, state, worker=worker)
        if approvals is not None:
            new = replace(new, answers=approvals.answers)
        if admitted.thread is not None:
            new = replace(new, thread=admitted.thread.turn)
        if not storage.is_detached:
            assert self._store is not None
            assert self._lease is not None
            recorder = ForegroundRecorder(
                self._store, self._lease, new, run.render_losses, begin_delay_s=self._begin_delay_s
            )
            if approvals is not None:
                approvals.confirmation = recorder.wait_until_begun
            if run.tool_run is not None:
                recorder.call_records = run.tool_run.journal = self._journals.make_journal(
                    principal.name, identity.id, ensure_stored=recorder.wait_until_begun
                )
            accepted.recorder = recorder
            return accepted
        if run.tool_run is not None:
            run.tool_run.journal = self._journals.make_journal(principal.name, identity.id)
        job = {
            **build_job_request(accepted, principal, admitted, view, state, strict=strict),
            **self._credentials.store_request(request, principal.name, identity.id),
        }
        return replace(accepted, job=replace(new, job_request=job))

    async def resume_job(self, job: Job) -> AcceptedRequest:
        """Accepts the request of a stored job again. Its response keeps its id and its time of creation.

        If the job has sent output, its response continues after it. Raises InvalidRequest, UnknownModel,
        StoreUnavailable, JobNotResumable, and CredentialsNotStored if its tools had credentials.
        """
        request = job.request
        body, locked_servers = self._credentials.load_request(job)
        assert self._store is not None
        interrupted = await load_interrupted_job(self._store, job)
        if interrupted is not None:
            body = interrupted.extend_input(body)
        endpoint = self._job_endpoints[request["dialect"]]
        route = self._admission.resolve(endpoint, request["asked"]["model"], request["models"], owner=job.owner)
        identity = ReplyIdentity(id=job.response_id, created=request["created"], model=route.name)
        admitted = AdmittedRequest(body, route, reports_tools=bool(request.get("tool_events")))
        admitted = admitted._replace(takes_input=bool(request.get("elicitation")))
        approvals = None
        if (fields := request.get("approvals")) and self._approvals is not None:
            approvals = self._approvals.restore(job.owner, job.response_id, fields)
        run = self._build_run(
            endpoint,
            request["shown"],
            body,
            identity,
            admitted,
            await self._find_tool_host(endpoint, body, route, request.get("mcp_servers", ["*"])),
            strict=request["strict"],
            storage=StorageOptions(stored=True),
            history_count=request["earlier"],
            history_tokens=request.get("tokens"),
            approvals=approvals,
        )
        if run.tool_run is not None:
            run.tool_run.journal = self._journals.make_journal(job.owner, job.response_id)
            run.tool_run.locked_servers = locked_servers
        elif locked_servers:
            raise CredentialsNotStored
        if interrupted is not None:
            interrupted.continue_in(run)
        return AcceptedRequest(run=run)

    def _accept_chat(
        self,
        store: Store,
        endpoint: Endpoint,
        owner: str,
        body: Json,
        identity: ReplyIdentity,
        admitted: AdmittedRequest,
        storage: StorageOptions,
        tool_host: ToolHost | None,
        *,
        strict: bool,
    ) -> AcceptedRequest:
        request = build_upstream_body("chat", body, admitted.route, storage, None)
        run = self._build_run(endpoint, body, request, identity, admitted, tool_host, strict=strict, storage=storage)
        if tool_host is not None:
            self._journals.add_open_call_journal(run.tool_run, owner, identity.id)
        recorder = CompletionRecorder(store, owner, body, run.render_losses) if storage.stored else None
        return AcceptedRequest(run=run, recorder=recorder)

    def _build_run(
        self,
        endpoint: Endpoint,
        view: Json,
        request: Json,
        identity: ReplyIdentity,
        admitted: AdmittedRequest,
        tool_host: ToolHost | None,
        *,
        strict: bool,
        storage: StorageOptions = NOT_STORED,
        history_count: int | None = None,
        history_tokens: int | None = None,
        approvals: ResponseApprovals | None = None,
    ) -> Run:
        route = admitted.route
        with admitted.rename_params_in_errors():
            plan = make_plan(
                endpoint,
                request,
                route,
                strict=strict,
                history_count=history_count,
                history_tokens=history_tokens,
                buffers_sentences=self._buffers_sentences,
                tool_host=tool_host,
                approvals=approvals,
                in_background=bool(view.get("background")),  # the request does not have it
            )
        if tool_host is not None:
            reports = admitted.reports_tools or self._reports_tools
            set_tool_options(endpoint, plan, reports_tools=reports, takes_input=admitted.takes_input)
        # The plan may add losses to this list while it runs, so the list itself stays.
        plan.losses[:] = admitted.rename_losses(plan.losses)
        if admitted.losses:
            require_no_loss(admitted.losses, strict=strict or route.strict)
        max_frame_bytes = self._max_frame_bytes.get(route.provider.name, DEFAULT_MAX_FRAME_BYTES)
        presentation = Presentation(self._reasoning_fields, max_frame_bytes, self._clock)
        presentation.is_stored = storage.stored
        presentation.hides_thinking = admitted.hides_thinking
        adapt_presentation(presentation, endpoint, view, request, route, plan)
        return Run(endpoint, view, identity, presentation, plan, self._provider_hold)
