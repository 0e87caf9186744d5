"""How the reply to a request is stored: not at all, as a completion, as a turn of a thread, or as a response.

A response may continue others and a conversation. It is kept in the foreground or as a job, or not kept.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Final, NamedTuple, Protocol, TypeAlias

from gateway.errors import StoreUnavailable
from gateway.http.auth import Principal
from gateway.http.large_bodies import LargeBodyPool
from gateway.jobs.job_credentials import JobCredentials
from gateway.planning.admitted_request import AdmittedRequest, list_values
from gateway.planning.continuation import (
    Continuation,
    EmptyHistory,
    continues_stored_state,
)
from gateway.planning.continued_history import HistorySource
from gateway.planning.resolver import Route, Target
from gateway.replies.endpoints import CompletionForm, Endpoint, LoadedThread, ResponseForm, ThreadForm, UpstreamInput
from gateway.replies.recorder import ForegroundRecorder, LenientRecorder
from gateway.service.new_response import build_initial_response, build_job_request, build_new_response
from gateway.service.run import UNSTORED, Run
from gateway.service.run_factory import EchoBody, RunFactory
from gateway.state.store import Lease, Store
from gateway.state.values import NewResponse
from gateway.tools.approvals import ApprovalFactory
from gateway.tools.host import ToolHost
from gateway.tools.response_journal import JournalFactory
from translation.errors import InvalidRequest
from translation.representation.json_types import Item, Json
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


@lru_cache
def echo_as(form: ResponseForm, options: StorageOptions) -> EchoBody:
    """Returns the function that returns a body as its response echoes it, if that is stored with these options."""
    return partial(form.echo, options.stored, options.background)


@dataclass(frozen=True, slots=True)
class StorageParts:
    """A store, and what storing replies in it takes."""

    store: Store
    lease: Lease
    journals: JournalFactory
    approvals: ApprovalFactory
    credentials: JobCredentials
    begin_delay_s: float
    serves_unstored: bool
    """Whether clients get replies that cannot be stored because the database has failed."""

    def journal_open_calls(self, run: Run) -> None:
        """Records the hosted calls of a reply that is not a response, while they run."""
        self.journals.add_open_call_journal(run.loop_io, run.owner, run.identity.id)

    def journal_calls(self, run: Run, recorder: ForegroundRecorder) -> None:
        """Records the hosted calls of a response that `recorder` stores."""
        if run.loop_io is not None:
            recorder.call_records = run.loop_io.journal = self.journals.make_journal(
                run.owner, run.identity.id, ensure_stored=recorder.wait_until_begun
            )


CallJournal: TypeAlias = Callable[[Run], None]
"""Records the hosted calls of a reply that is not a response, while they run."""


def journal_nothing(run: Run) -> None:
    """Records no calls, where there is no store."""


OpenToolHost: TypeAlias = Callable[[Endpoint, RequestFacts, Route, Principal], Awaitable[ToolHost | None]]
"""Returns the host of the tools of a request that its upstream does not run: see `Admission.open_tool_host`."""


class ReplyStorage(Protocol):
    """One way in which replies are stored. It plans requests, because the history is part of what the upstream gets."""

    async def accept(self, request: AdmittedRequest, weight: int) -> Run:
        """Returns the run of a request of this weight, of which nothing has been sent.

        Raises InvalidRequest, NotFound and StoreUnavailable.
        """
        ...


class NoStorage:
    """Stores nothing but, with `journal_calls`, the calls of tools that are running."""

    def __init__(self, runs: RunFactory, pool: LargeBodyPool, journal_calls: CallJournal) -> None:
        self._runs = runs
        self._pool = pool
        self._journal_calls = journal_calls

    async def accept(self, request: AdmittedRequest, weight: int) -> Run:
        if weight <= self._pool.free_weight:
            return self._accept(request, weight)
        return await self._pool.call_weighed(weight, self._accept, request, weight)

    def _accept(self, request: AdmittedRequest, weight: int) -> Run:
        form = request.endpoint.storage
        echo = echo_as(form, NOT_STORED) if isinstance(form, ResponseForm) else None
        run = self._runs.build_run(request, echo, weight=weight)
        if request.tool_host is not None:
            self._journal_calls(run)
        return run


class CompletionStorage:
    """Stores a completion at its end. With `falls_back` it is sent also if the database fails."""

    def __init__(
        self, runs: RunFactory, pool: LargeBodyPool, parts: StorageParts, form: CompletionForm, *, falls_back: bool
    ) -> None:
        self._falls_back = falls_back
        self._runs = runs
        self._pool = pool
        self._parts = parts
        self._form = form

    async def accept(self, request: AdmittedRequest, weight: int) -> Run:
        return await self._pool.call_weighed(weight, self._accept, request, weight)

    def _accept(self, request: AdmittedRequest, weight: int) -> Run:
        body = request.body
        planned = AdmittedRequest(*list_values(request))
        planned.body, planned.facts = self._form.remove_storage(body), request.facts.copy()
        planned.facts.state = _UNSTORED_STATE
        run = self._runs.build_run(request, planned=planned, is_stored=True, weight=weight)
        if request.tool_host is not None:
            self._parts.journal_open_calls(run)
        run.recorder = self._form.make_recorder(self._parts.store, request.owner, body, run.find_stored_headers)
        if self._falls_back and not run.streams and request.tool_host is None:
            # A completion has no field that says so, and the headers of a stream have been sent when its end is stored.
            run.recorder = LenientRecorder(run.recorder, run.report_unstored)
        return run


class ThreadStorage:
    """Stores a reply as the next turn of its thread, in the foreground.

    `open_tool_host` is that of `Admission`: the tools of a thread are those of the request that began it.
    """

    def __init__(
        self, runs: RunFactory, pool: LargeBodyPool, parts: StorageParts, form: ThreadForm, open_tool_host: OpenToolHost
    ) -> None:
        self._runs = runs
        self._pool = pool
        self._parts = parts
        self._form = form
        self._open_tool_host = open_tool_host

    async def accept(self, request: AdmittedRequest, weight: int) -> Run:
        thread = request.facts.state.thread or {}
        history = await self._form.load(self._parts.store, request.owner, thread)
        if history.has_turns:
            request = await self._pool.call_weighed(weight, _restore_body, request, history)
            host = await self._open_tool_host(request.endpoint, request.facts, request.route, request.principal)
            request = replace(request, tool_host=host)
        weight += history.weight
        run = await self._pool.call_weighed(weight, self._accept, request, history, weight)
        if history.has_turns:
            # Of two requests that continue one message, only one may reach the upstream.
            await run.store_beginning()
        return run

    def _accept(self, request: AdmittedRequest, history: LoadedThread, weight: int) -> Run:
        parts, body = self._parts, request.body
        turn = history.add_turn(request.endpoint, body, request.facts, request.identity, request.target.reasoning_seal)
        threaded = replace(
            request,
            endpoint=turn.build_endpoint(),
            history_count=turn.history_count,
            history_tokens=turn.history_tokens,
        )

        def replan(target: Target) -> AdmittedRequest:
            endpoint = turn.fit_to_seal(target.reasoning_seal).build_endpoint()
            return replace(threaded, endpoint=endpoint, target=target)

        run = self._runs.build_run(threaded, replan=replan, is_stored=True, weight=weight)
        run.recorder = recorder = turn.make_recorder(
            parts.store, parts.lease, request.owner, run.find_stored_headers, begin_delay_s=parts.begin_delay_s
        )
        parts.journal_calls(run, recorder)
        _note_answer(run, recorder)
        return run


def _note_answer(run: Run, recorder: ForegroundRecorder) -> None:
    """Lets the recorder of a reply know when its upstream has answered, if that is not known from the start."""
    if run.attempts is not None and run.streams:
        run.attempts.note_content = recorder.note_content


def _restore_body(request: AdmittedRequest, history: LoadedThread) -> AdmittedRequest:
    """Returns the request with the parameters that its thread keeps, and the facts of all of them."""
    body = history.restore_body(request.body)
    return replace(request, body=body, facts=request.endpoint.request.read_facts(body))


class UnstoredFallback:
    """Serves a request without storing its reply, as its client is told, because the database has failed."""

    def __init__(self, storage: ReplyStorage) -> None:
        self._storage = storage

    async def accept(self, request: AdmittedRequest, weight: int) -> Run:
        if request.tool_host is not None:
            raise StoreUnavailable  # calls of its tools are recorded before they are sent
        return await self._storage.accept(replace(request, losses=[*request.losses, UNSTORED]), weight)


class ContinuedRequest(NamedTuple):
    """A request of the Responses API for its upstream, with what it continues, and how its response is stored."""

    planned: AdmittedRequest
    state: Continuation
    options: StorageOptions


class ResponseKeeper(Protocol):
    """Keeps the response of a run in one way, for which it prepares the run."""

    def keep(self, run: Run, request: ContinuedRequest) -> None: ...


class ResponseStorage:
    """Plans a response that may continue others: its upstream gets the whole history, and stores nothing."""

    def __init__(
        self,
        runs: RunFactory,
        pool: LargeBodyPool,
        form: ResponseForm,
        options: StorageOptions,
        keeper: ResponseKeeper,
        history: HistorySource,
    ) -> None:
        self._runs = runs
        self._pool = pool
        self._form = form
        self._options = options
        self._keeper = keeper
        self._history = history

    async def accept(self, request: AdmittedRequest, weight: int) -> Run:
        owner, facts = request.principal.owner, request.facts
        state = await self._history.load(owner, facts, request.thread)
        if (host := request.tool_host) is not None:
            labels = host.list_callable_labels(facts.tools.hosted, request.target.mcp_servers)
            try:
                approvals = await self._history.load_approvals(owner, request.identity.id, state, labels)
                request = replace(request, approvals=approvals)
            except InvalidRequest as refusal:
                if request.route.sharing is None:
                    raise
                request = replace(request, approval_refusal=refusal)
        if state.conversation_id is not None and not self._options.stored:
            request = replace(request, losses=[*request.losses, _CONVERSATION_NOT_EXTENDED])
        weight += state.weight
        return await self._pool.call_weighed(weight, self._accept, request, state, weight)

    def _accept(self, request: AdmittedRequest, state: Continuation, weight: int) -> Run:
        options = self._options
        echo = echo_as(self._form, options)
        planned = self._plan_input(request, state, request.target)

        def replan(target: Target) -> AdmittedRequest:
            return self._plan_input(request, state, target)

        run = self._runs.build_run(
            request,
            echo,
            planned=planned,
            replan=replan,
            is_stored=options.stored,
            is_job=options.is_detached,
            weight=weight,
        )
        run.context, run.approvals = state.context, request.approvals
        self._keeper.keep(run, ContinuedRequest(planned, state, options))
        return run

    def _plan_input(self, request: AdmittedRequest, state: Continuation, target: Target) -> AdmittedRequest:
        """Returns the request for one target, with what it continues as the beginning of its input."""
        items = None if state.history_count is None else state.context
        body, facts = fit_to_target(self._form, self._options, target, request.body, request.facts, items)
        planned = AdmittedRequest(*list_values(request))
        planned.body, planned.facts, planned.target = body, facts, target
        planned.history_count, planned.history_tokens = state.history_count, state.history_tokens
        planned.in_background = self._options.background
        planned.chain_root = _find_chain_root(state)
        return planned


def fit_to_target(
    form: ResponseForm,
    options: StorageOptions,
    target: Target,
    body: Json,
    facts: RequestFacts,
    items: Sequence[Item] | None = None,
) -> tuple[Json, RequestFacts]:
    """Returns a body for one target, which decides whether reasoning is sealed and jobs stream, and the facts of it.

    `items` replace its input.
    """
    can = target.capabilities
    seals = can.sealed_reasoning and options.stored and not facts.wants_sealed_reasoning
    # No client waits for a job. A stream proves that a long run is alive, and delivers its output in pieces.
    streams = can.streaming if options.is_detached else facts.streams
    fitted = form.continue_upstream(body, UpstreamInput(items, seals, streams if options.is_detached else None))
    facts = facts.copy()
    facts.streams, facts.state = streams, _UNSTORED_STATE
    if items is not None:
        facts.input_value = items
    if seals:
        facts.wants_sealed_reasoning = True
    return fitted, facts


def _find_chain_root(state: Continuation) -> str | None:
    """Returns the id of the first item of a chain of responses, which all its responses have in common."""
    return state.history[0].get("id") if state.parent_id is not None and state.history else None


class UnstoredResponse:
    """Keeps nothing of a response but, with `journal_calls`, the calls of tools that are running."""

    def __init__(self, journal_calls: CallJournal) -> None:
        self._journal_calls = journal_calls

    def keep(self, run: Run, request: ContinuedRequest) -> None:
        self._journal_calls(run)
        if (approvals := run.approvals) is not None:
            approvals.confirmation = approvals.store_answers


class ForegroundResponse:
    """Stores a response while its client waits. With `falls_back` the client gets it also if the database fails."""

    def __init__(self, parts: StorageParts, *, falls_back: bool) -> None:
        self._parts = parts
        self._falls_back = falls_back

    def keep(self, run: Run, request: ContinuedRequest) -> None:
        parts = self._parts
        new = _build_new_response(run, request, parts.lease.worker)
        run.recorder = recorder = ForegroundRecorder(
            parts.store, parts.lease, new, run.find_stored_headers, begin_delay_s=parts.begin_delay_s
        )
        if run.approvals is not None:
            run.approvals.confirmation = recorder.wait_until_begun
        parts.journal_calls(run, recorder)
        if run.attempts is not None:
            recorder.find_beginning = partial(build_initial_response, run)
            _note_answer(run, recorder)
        if self._falls_back and run.request.tool_host is None:
            # With tools that the gateway runs, the response is stored before they are called.
            run.recorder = LenientRecorder(recorder, run.report_unstored)


class JobResponse:
    """Stores a response as a job, which goes on without its client."""

    def __init__(self, parts: StorageParts, form: ResponseForm) -> None:
        self._parts = parts
        self._form = form

    def keep(self, run: Run, request: ContinuedRequest) -> None:
        parts, owner, response_id = self._parts, run.owner, run.identity.id
        if run.loop_io is not None:
            run.loop_io.journal = parts.journals.make_journal(owner, response_id)
        job_request = {
            **build_job_request(run, request.planned, self._form, in_background=request.options.background),
            **parts.credentials.store_request(
                self._find_upstream_body(run, request),
                owner,
                response_id,
                has_credentials=bool(request.planned.facts.tools.credentials),
            ),
        }
        run.job = replace(_build_new_response(run, request, parts.lease.worker), job_request=job_request)

    def _find_upstream_body(self, run: Run, request: ContinuedRequest) -> Json:
        """Returns the body for the upstream. If there are several, it has nothing that is for one of them."""
        if run.attempts is None:
            return request.planned.body
        state = request.state
        items = None if state.history_count is None else state.context
        return self._form.continue_upstream(run.request.body, UpstreamInput(items))


def _build_new_response(run: Run, request: ContinuedRequest, worker: str) -> NewResponse:
    options, thread = request.options, run.request.thread
    new = build_new_response(run, request.state, is_queued=options.background, worker=worker)
    # The log of a job that calls tools shows that it has begun: a job that has is not started again.
    logged = options.logged or (options.is_detached and run.loop_io is not None)
    new = replace(new, logged=logged)
    if run.approvals is not None:
        new = replace(new, answers=run.approvals.answers)
    return new if thread is None else replace(new, thread=thread.turn)


class StorageChooser(Protocol):
    """Chooses how the replies of one configuration are stored."""

    def choose(
        self,
        request: AdmittedRequest,
        connection_items: Mapping[str, Sequence[Item]] | None = None,
        *,
        has_key: bool = False,
    ) -> ReplyStorage:
        """Returns how the reply to a request is stored. See `ClientRequest` for the parameters.

        Raises InvalidRequest for options that exclude each other, and StoreUnavailable.
        """
        ...


class StorelessChooser:
    """The choice of a server without a store: responses may continue those of their connection."""

    def __init__(self, runs: RunFactory, pool: LargeBodyPool) -> None:
        self._runs = runs
        self._pool = pool
        self._unstored: Final = NoStorage(runs, pool, journal_nothing)

    def choose(
        self,
        request: AdmittedRequest,
        connection_items: Mapping[str, Sequence[Item]] | None = None,
        *,
        has_key: bool = False,
    ) -> ReplyStorage:
        form = request.endpoint.storage
        if connection_items is None or not isinstance(form, ResponseForm):
            return self._unstored
        history = HistorySource(EmptyHistory(), connection_items, None)
        return ResponseStorage(self._runs, self._pool, form, NOT_STORED, UnstoredResponse(journal_nothing), history)


class StoredChooser:
    """The choice of a server with a store: the request and the health of the database decide."""

    def __init__(
        self, runs: RunFactory, pool: LargeBodyPool, parts: StorageParts, open_tool_host: OpenToolHost
    ) -> None:
        self._runs = runs
        self._pool = pool
        self._parts = parts
        self._open_tool_host = open_tool_host
        self._unstored: Final = NoStorage(runs, pool, parts.journal_open_calls)

    def choose(
        self,
        request: AdmittedRequest,
        connection_items: Mapping[str, Sequence[Item]] | None = None,
        *,
        has_key: bool = False,
    ) -> ReplyStorage:
        form, facts, parts = request.endpoint.storage, request.facts, self._parts
        if isinstance(form, ThreadForm) and facts.state.thread is not None:
            return ThreadStorage(self._runs, self._pool, parts, form, self._open_tool_host)
        if form is None or isinstance(form, ThreadForm):
            return self._unstored
        can_detach = isinstance(form, ResponseForm) and form.allows_jobs
        options = choose_storage_options(
            facts, resumable=can_detach and request.route.resumable, has_key=can_detach and has_key
        )
        if not options.stored:
            return self._choose_unstored(form, connection_items)
        falls_back = parts.serves_unstored and _may_fall_back(request, connection_items, has_key=has_key)
        if parts.store.degraded_reason is not None:
            if not falls_back:
                # Fail early: a reply that cannot be stored is not worth the cost of an upstream request.
                raise StoreUnavailable
            return UnstoredFallback(self._choose_unstored(form, connection_items))
        if isinstance(form, CompletionForm):
            return CompletionStorage(self._runs, self._pool, parts, form, falls_back=falls_back)
        keeper = JobResponse(parts, form) if options.is_detached else ForegroundResponse(parts, falls_back=falls_back)
        history = HistorySource(parts.store.history, connection_items, parts.approvals)
        return ResponseStorage(self._runs, self._pool, form, options, keeper, history)

    def _choose_unstored(
        self, form: ResponseForm | CompletionForm, connection_items: Mapping[str, Sequence[Item]] | None
    ) -> ReplyStorage:
        if isinstance(form, CompletionForm):
            return self._unstored
        parts = self._parts
        history = HistorySource(parts.store.history, connection_items, parts.approvals)
        keeper = UnstoredResponse(parts.journal_open_calls)
        return ResponseStorage(self._runs, self._pool, form, NOT_STORED, keeper, history)


def _may_fall_back(
    request: AdmittedRequest, connection_items: Mapping[str, Sequence[Item]] | None, *, has_key: bool
) -> bool:
    """Returns whether the client of a request may get a reply that could not be stored.

    It may not if it accepts no loss, if it wants to fetch the reply later, or if the reply continues what is stored:
    later turns would miss it.
    """
    facts = request.facts
    wants_it_later = facts.state.in_background or facts.state.is_resumable is True or has_key
    continues = request.thread is not None or continues_stored_state(facts, connection_items)
    return not (request.is_strict or wants_it_later or continues)
