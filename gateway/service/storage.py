"""How the reply to a request is stored: not at all, as a completion, as a turn of a thread, or as a response.

A response may continue others and a conversation. It is kept in the foreground or as a job, or not kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

from gateway.errors import StoreUnavailable
from gateway.http.large_bodies import LargeBodyPool
from gateway.jobs.job_credentials import JobCredentials
from gateway.planning.continuation import Continuation, EmptyHistory, continue_thread, resolve_continuation
from gateway.planning.plan_input import AdmittedRequest, PlanInput
from gateway.replies.endpoints import CompletionForm, LoadedThread, ResponseForm, ThreadForm, UpstreamInput
from gateway.replies.recorder import ForegroundRecorder, Lease
from gateway.service.accepted_request import AcceptedRequest, build_job_request, build_new_response
from gateway.service.run import Run, RunFactory
from gateway.state.store import HistoryReader, Store
from gateway.state.values import NewResponse
from gateway.tools.approvals import ApprovalFactory, ResponseApprovals
from gateway.tools.host import ToolHost
from gateway.tools.response_journal import JournalFactory
from translation.errors import InvalidRequest
from translation.representation.json_types import Item
from translation.representation.loss import Loss
from translation.request_facts import RequestFacts, StateFacts

_UNSTORED_STATE: Final = StateFacts()

_CONVERSATION_NOT_EXTENDED: Final = Loss("conversation", "not extended")
"""The loss of a response that is not stored: it reads the conversation that it names, and adds nothing to it."""


class StorageOptions(NamedTuple):
    """Whether a response is stored, and whether it goes on without its client."""

    stored: bool = False
    background: bool = False
    """Whether it is answered before it is done."""
    logged: bool = False
    """Whether its events are in the event log, so that its stream can be resumed."""

    @property
    def is_detached(self) -> bool:
        """Whether the response continues if its client disconnects: it then runs as a job."""
        return self.background or self.logged


NOT_STORED: Final = StorageOptions()


def choose_storage_options(facts: RequestFacts, *, resumable: bool, has_key: bool = False) -> StorageOptions:
    """Returns the storage options of a request, for a server that has a store.

    `resumable` is the model's default for the parameter of that name. `has_key` says that the request has an
    idempotency key: repeated requests may follow its response. Raises InvalidRequest for options that exclude each
    other.
    """
    state = facts.state
    if not state.is_stored:
        for name, is_set in (("background", state.in_background), ("resumable", state.is_resumable)):
            if is_set:
                raise InvalidRequest(f"'{name}' needs a stored response: leave out 'store: false'.", param=name)
        return NOT_STORED
    if state.is_resumable and not facts.streams:
        raise InvalidRequest("'resumable' is about streams: send 'stream: true' with it.", param="resumable")
    is_resumable = resumable if state.is_resumable is None else state.is_resumable
    return StorageOptions(
        stored=True,
        background=state.in_background,
        logged=has_key or (facts.streams and (state.in_background or is_resumable)),
    )


@dataclass(frozen=True, slots=True)
class StorageParts:
    """A store, and what storing replies in it takes."""

    store: Store
    lease: Lease
    journals: JournalFactory
    approvals: ApprovalFactory
    credentials: JobCredentials
    begin_delay_s: float

    def journal_open_calls(self, run: Run) -> None:
        """Records the hosted calls of a reply that is not a response, while they run."""
        self.journals.add_open_call_journal(run.loop_io, run.owner, run.identity.id)

    def journal_calls(self, run: Run, recorder: ForegroundRecorder) -> None:
        """Records the hosted calls of a response that `recorder` stores."""
        if run.loop_io is not None:
            recorder.call_records = run.loop_io.journal = self.journals.make_journal(
                run.owner, run.identity.id, ensure_stored=recorder.wait_until_begun
            )


class ReplyStorage(Protocol):
    """One way in which replies are stored. It plans requests, because the history is part of what the upstream gets."""

    async def accept(self, admitted: AdmittedRequest, tool_host: ToolHost | None, weight: int) -> AcceptedRequest:
        """Returns a planned request of this weight, of which nothing has been sent.

        `tool_host` is the host of its tools; None if there are none. Raises InvalidRequest, NotFound and
        StoreUnavailable.
        """
        ...


class NoStorage:
    """Stores nothing but the calls of tools that are running. `parts` is None without a store."""

    def __init__(self, runs: RunFactory, pool: LargeBodyPool, parts: StorageParts | None) -> None:
        self._runs = runs
        self._pool = pool
        self._parts = parts

    async def accept(self, admitted: AdmittedRequest, tool_host: ToolHost | None, weight: int) -> AcceptedRequest:
        if self._pool.runs_at_once(weight):
            return self._accept(admitted, tool_host)
        return await self._pool.run(weight, self._accept, admitted, tool_host)

    def _accept(self, admitted: AdmittedRequest, tool_host: ToolHost | None) -> AcceptedRequest:
        endpoint, body, facts, route = admitted[:4]
        form, target = endpoint.storage, route.target
        view = form.echo(body, target.profile, False, False) if isinstance(form, ResponseForm) else body
        planned = PlanInput(endpoint, body, facts, target, tool_host=tool_host)
        run = self._runs.build_run(admitted, planned, view)
        if tool_host is not None and self._parts is not None:
            self._parts.journal_open_calls(run)
        return AcceptedRequest(run)


class CompletionStorage:
    """Stores a completion at its end."""

    def __init__(self, runs: RunFactory, pool: LargeBodyPool, parts: StorageParts, form: CompletionForm) -> None:
        self._runs = runs
        self._pool = pool
        self._parts = parts
        self._form = form

    async def accept(self, admitted: AdmittedRequest, tool_host: ToolHost | None, weight: int) -> AcceptedRequest:
        return await self._pool.run(weight, self._accept, admitted, tool_host)

    def _accept(self, admitted: AdmittedRequest, tool_host: ToolHost | None) -> AcceptedRequest:
        endpoint, body, facts, route = admitted[:4]
        facts = facts._replace(state=_UNSTORED_STATE)
        planned = PlanInput(endpoint, self._form.remove_storage(body), facts, route.target, tool_host=tool_host)
        run = self._runs.build_run(admitted, planned, body, is_stored=True)
        if tool_host is not None:
            self._parts.journal_open_calls(run)
        recorder = self._form.make_recorder(self._parts.store, admitted.owner, body, run.render_losses)
        return AcceptedRequest(run, recorder=recorder)


class ThreadStorage:
    """Stores a reply as the next turn of its thread, in the foreground."""

    def __init__(self, runs: RunFactory, pool: LargeBodyPool, parts: StorageParts, form: ThreadForm) -> None:
        self._runs = runs
        self._pool = pool
        self._parts = parts
        self._form = form

    async def accept(self, admitted: AdmittedRequest, tool_host: ToolHost | None, weight: int) -> AcceptedRequest:
        thread = admitted.facts.state.thread or {}
        history = await self._form.load(self._parts.store, admitted.owner, thread)
        accepted = await self._pool.run(weight, self._accept, admitted, history, tool_host)
        if history.has_turns:
            # Of two requests that continue one message, only one may reach the upstream.
            await accepted.store_beginning()
        return accepted

    def _accept(self, admitted: AdmittedRequest, history: LoadedThread, tool_host: ToolHost | None) -> AcceptedRequest:
        endpoint, body, facts, route = admitted[:4]
        turn = history.add_turn(endpoint, body, admitted.identity, route.target.reasoning_seal)
        own_endpoint = turn.build_endpoint()
        planned = PlanInput(
            own_endpoint, body, facts, route.target, turn.history_count, turn.history_tokens, tool_host=tool_host
        )
        run = self._runs.build_run(admitted._replace(endpoint=own_endpoint), planned, body, is_stored=True)
        recorder = turn.make_recorder(
            self._parts.store,
            self._parts.lease,
            admitted.owner,
            run.render_losses,
            begin_delay_s=self._parts.begin_delay_s,
        )
        self._parts.journal_calls(run, recorder)
        return AcceptedRequest(run, recorder=recorder)


class ContinuedRequest(NamedTuple):
    """A request of the Responses API with what it continues, and how its response is stored."""

    admitted: AdmittedRequest
    state: Continuation
    options: StorageOptions
    approvals: ResponseApprovals | None


class ResponseKeeper(Protocol):
    """Keeps a planned response in one way."""

    def keep(self, request: ContinuedRequest, run: Run, planned: PlanInput) -> AcceptedRequest: ...


class ResponseStorage:
    """Plans a response that may continue others: its upstream gets the whole history, and stores nothing.

    `approvals` is None without a store.
    """

    def __init__(
        self,
        runs: RunFactory,
        pool: LargeBodyPool,
        form: ResponseForm,
        options: StorageOptions,
        keeper: ResponseKeeper,
        history: "HistorySource",
    ) -> None:
        self._runs = runs
        self._pool = pool
        self._form = form
        self._options = options
        self._keeper = keeper
        self._history = history

    async def accept(self, admitted: AdmittedRequest, tool_host: ToolHost | None, weight: int) -> AcceptedRequest:
        state = await self._history.load(admitted)
        approvals = None
        if tool_host is not None:
            approvals = await self._history.load_approvals(admitted, state, tool_host)
        if state.conversation_id is not None and not self._options.stored:
            admitted = admitted._replace(losses=[*admitted.losses, _CONVERSATION_NOT_EXTENDED])
        request = ContinuedRequest(admitted, state, self._options, approvals)
        return await self._pool.run(weight, self._accept, request, tool_host)

    def _accept(self, request: ContinuedRequest, tool_host: ToolHost | None) -> AcceptedRequest:
        admitted, state, options, approvals = request
        endpoint, body, facts, route = admitted[:4]
        view = self._form.echo(body, route.target.profile, options.stored, options.background)
        seals = route.target.capabilities.sealed_reasoning and options.stored and not facts.wants_sealed_reasoning
        # No client waits for a job. A stream proves that a long run is alive, and delivers its output in pieces.
        streams = route.target.capabilities.streaming if options.is_detached else facts.streams
        items = None if state.history_count is None else state.context
        upstream_body = self._form.continue_upstream(
            body, UpstreamInput(items, seals, streams if options.is_detached else None)
        )
        planned = PlanInput(
            endpoint,
            upstream_body,
            facts._replace(
                streams=streams,
                state=_UNSTORED_STATE,
                input_value=facts.input_value if items is None else items,
                wants_sealed_reasoning=facts.wants_sealed_reasoning or seals,
            ),
            route.target,
            state.history_count,
            state.history_tokens,
            tool_host,
            approvals,
            options.background,
        )
        run = self._runs.build_run(admitted, planned, view, is_stored=options.stored)
        return self._keeper.keep(request, run, planned)


class HistorySource:
    """Loads what requests of the Responses API continue: from the store, or from the connection alone."""

    def __init__(
        self,
        history: HistoryReader,
        connection_items: Mapping[str, Sequence[Item]] | None,
        approvals: ApprovalFactory | None,
    ) -> None:
        """`approvals` is None without a store."""
        self._history = history
        self._connection_items = connection_items
        self._approvals = approvals

    async def load(self, admitted: AdmittedRequest) -> Continuation:
        """Returns the resolved input of a request. Raises what `resolve_continuation` raises."""
        thread, facts = admitted.thread, admitted.facts
        if thread is not None:
            return continue_thread(thread.history, facts, thread.turn.conversation["id"])
        return await resolve_continuation(self._history, admitted.owner, facts, self._connection_items)

    async def load_approvals(
        self, admitted: AdmittedRequest, state: Continuation, tool_host: ToolHost
    ) -> ResponseApprovals | None:
        """Returns the approvals of the request's tools; None if none can be stored."""
        if self._approvals is None:
            return None
        labels = [
            *tool_host.list_labels(admitted.facts.tools.hosted),
            *tool_host.list_usable_labels(admitted.route.target.mcp_servers),
        ]
        response_id = admitted.identity.id
        return await self._approvals.load(admitted.owner, response_id, state.context, state.new_items, labels)


class UnstoredResponse:
    """Keeps nothing of a response but the calls of tools that are running. `parts` is None without a store."""

    def __init__(self, parts: StorageParts | None) -> None:
        self._parts = parts

    def keep(self, request: ContinuedRequest, run: Run, planned: PlanInput) -> AcceptedRequest:
        if self._parts is not None:
            self._parts.journal_open_calls(run)
        if (approvals := request.approvals) is not None:
            approvals.confirmation = approvals.store_answers
        return AcceptedRequest(run, request.state.context, approvals=approvals)


class ForegroundResponse:
    """Stores a response while its client waits."""

    def __init__(self, parts: StorageParts) -> None:
        self._parts = parts

    def keep(self, request: ContinuedRequest, run: Run, planned: PlanInput) -> AcceptedRequest:
        parts = self._parts
        new = _build_new_response(request, run, parts.lease.worker)
        recorder = ForegroundRecorder(
            parts.store, parts.lease, new, run.render_losses, begin_delay_s=parts.begin_delay_s
        )
        if request.approvals is not None:
            request.approvals.confirmation = recorder.wait_until_begun
        parts.journal_calls(run, recorder)
        return AcceptedRequest(run, request.state.context, recorder, approvals=request.approvals)


class JobResponse:
    """Stores a response as a job, which goes on without its client."""

    def __init__(self, parts: StorageParts) -> None:
        self._parts = parts

    def keep(self, request: ContinuedRequest, run: Run, planned: PlanInput) -> AcceptedRequest:
        parts, owner, response_id = self._parts, run.owner, run.identity.id
        if run.loop_io is not None:
            run.loop_io.journal = parts.journals.make_journal(owner, response_id)
        job_request = {
            **build_job_request(request.admitted, run, planned),
            **parts.credentials.store_request(planned.body, owner, response_id),
        }
        new = replace(_build_new_response(request, run, parts.lease.worker), job_request=job_request)
        return AcceptedRequest(run, request.state.context, job=new, approvals=request.approvals)


def _build_new_response(request: ContinuedRequest, run: Run, worker: str) -> NewResponse:
    admitted, state, options, approvals = request
    new = build_new_response(run, state, is_queued=options.background, worker=worker)
    # The log of a job that calls tools shows that it has begun: a job that has is not started again.
    logged = options.logged or (options.is_detached and run.loop_io is not None)
    new = replace(new, logged=logged)
    if approvals is not None:
        new = replace(new, answers=approvals.answers)
    return new if admitted.thread is None else replace(new, thread=admitted.thread.turn)


class StorageChooser:
    """Chooses how the replies of one configuration are stored. `parts` is None without a store."""

    def __init__(self, runs: RunFactory, pool: LargeBodyPool, parts: StorageParts | None) -> None:
        self._runs = runs
        self._pool = pool
        self._parts = parts
        self._unstored: Final = NoStorage(runs, pool, parts)

    def choose(
        self,
        admitted: AdmittedRequest,
        connection_items: Mapping[str, Sequence[Item]] | None = None,
        *,
        has_key: bool = False,
    ) -> ReplyStorage:
        """Returns how the reply to a request is stored. See `ClientRequest` for the parameters.

        Raises InvalidRequest for options that exclude each other, and StoreUnavailable.
        """
        form, facts, parts = admitted.endpoint.storage, admitted.facts, self._parts
        if parts is None:
            if connection_items is None or not isinstance(form, ResponseForm):
                return self._unstored
            history = HistorySource(EmptyHistory(), connection_items, None)
            return ResponseStorage(self._runs, self._pool, form, NOT_STORED, UnstoredResponse(None), history)
        if isinstance(form, ThreadForm) and facts.state.thread is not None:
            return ThreadStorage(self._runs, self._pool, parts, form)
        if form is None or isinstance(form, ThreadForm):
            return self._unstored
        can_detach = isinstance(form, ResponseForm) and form.allows_jobs
        options = choose_storage_options(
            facts, resumable=can_detach and admitted.route.resumable, has_key=can_detach and has_key
        )
        if options.stored and parts.store.degraded_reason is not None:
            # Fail early: a reply that cannot be stored is not worth the cost of an upstream request.
            raise StoreUnavailable
        if isinstance(form, CompletionForm):
            return CompletionStorage(self._runs, self._pool, parts, form) if options.stored else self._unstored
        keeper: ResponseKeeper
        if not options.stored:
            keeper = UnstoredResponse(parts)
        else:
            keeper = JobResponse(parts) if options.is_detached else ForegroundResponse(parts)
        history = HistorySource(parts.store.history, connection_items, parts.approvals)
        return ResponseStorage(self._runs, self._pool, form, options, keeper, history)
