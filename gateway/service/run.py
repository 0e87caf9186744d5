"""Produces the reply of a planned request, as a stream or as one JSON object, and stores it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from dataplane.sharing.work_pool import run_in_pool
from gateway.error_replies import build_failed_event
from gateway.errors import ShuttingDown, StoreUnavailable, TurnFailed
from gateway.http.headers import ATTEMPTS_HEADER, UPSTREAM_HEADER, build_upstream_headers
from gateway.logs import MAX_LOGGED_CHARS, bind_fields
from gateway.planning.admitted_request import AdmittedRequest
from gateway.planning.plan import RelayPlan, TranslationPlan
from gateway.planning.resolver import Target
from gateway.replies.answering_model import (
    MODEL_HEADER,
    ModelObserver,
    ModelRelay,
    ModelStage,
    find_model,
)
from gateway.replies.attempted_reply import ATTEMPT_FAILURES, AttemptedReply, AttemptStream
from gateway.replies.client_params import RejectionParams
from gateway.replies.endpoints import Presentation, ReplyCollector, ReplyIdentity
from gateway.replies.event_stream import ReplyStream
from gateway.replies.log_replay import LogReplay
from gateway.replies.loss_header import (
    LOSS_HEADER,
    build_warning_losses,
    collect_facts,
    read_end,
    read_reply_warnings,
    report_losses,
)
from gateway.replies.obfuscation import ObfuscatingEncoder, ObfuscatingRelay
from gateway.replies.observers import ObservedRounds, ReplyEnd, RequestObserver
from gateway.replies.recorder import ForegroundRecorder, ReplyRecorder
from gateway.replies.reply_streams import RelayedReply, TranslatedReply, batch_is_filtered, has_content_events
from gateway.replies.request_figures import RequestFigures
from gateway.service.provider_lifetimes import ProviderHold
from gateway.service.sharing.shared_attempts import SharedAttempts
from gateway.state.store import Store
from gateway.state.values import NewResponse, StoredHeaders
from gateway.tools.approvals import ResponseApprovals
from gateway.tools.loop_io import LoopIO
from providers.base import Batch, HeaderedReply, as_batch_source
from providers.errors import ProviderError
from translation.errors import InvalidRequest
from translation.representation.events import CUT_OFF_REASONS, Failed, FinishReason, Usage
from translation.representation.item_seal import ItemSeal
from translation.representation.items import HOSTED_CALL_KINDS
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss, build_reply_loss, list_reply_losses


@dataclass(slots=True)
class Attempt:
    """One way to produce the reply to a request: the plan for one target."""

    target: Target
    plan: RelayPlan | TranslationPlan
    presentation: Presentation
    body: Json
    """The body as the reply echoes it, with the defaults of the target."""

    @property
    def item_seal(self) -> ItemSeal | None:
        """Seals the items of the reply."""
        return self.presentation.item_seal


UNSTORED: Final = Loss("store", "unavailable")
"""The loss of a reply that is sent although it could not be stored."""


@dataclass(slots=True, eq=False)
class Run:
    """One reply to an accepted request, which is produced once: as a stream, or as one JSON object."""

    request: AdmittedRequest
    """The request of the client, before it was joined with what it continues."""
    attempt: Attempt
    """The attempt in progress."""
    observer: RequestObserver
    provider_hold: ProviderHold | None = None
    """Keeps the plan's provider open until the reply has ended."""
    attempts: SharedAttempts | None = None
    """Chooses the upstreams of the attempts, and ends them; None if the request is sent to the only target."""
    plan_target: Callable[[Target], Awaitable[Attempt]] | None = None
    """Plans the request for another target of its route, if there may be further attempts."""
    names_upstream: bool = False
    """Whether the headers of the reply name its upstream, and count the attempts."""
    context: Sequence[Item] = field(default=(), init=False)
    """The whole input of a Responses request: history items, then the request's own items."""
    recorder: ReplyRecorder | None = field(default=None, init=False)
    """Stores the reply of a request in the foreground; None if it is not stored, or runs as a job."""
    job: NewResponse | None = field(default=None, init=False)
    """The response to store before the request is answered, if it runs as a job; None in the foreground."""
    approvals: ResponseApprovals | None = field(default=None, init=False)
    """The approvals of its tools; None if none of its tools needs approvals."""
    figures: RequestFigures | None = field(default=None, init=False)
    """The figures of a run that is a job; None if nobody keeps them."""
    late_losses: Sequence[Loss] = field(default=(), init=False)
    """Losses that are known only when a JSON reply is complete: tool calls with a warning, and missing results."""
    _model_observer: ModelObserver | None = field(default=None, init=False)
    """Knows the model that answers, if the upstream chooses it."""
    _rounds: ObservedRounds | None = field(default=None, init=False)
    """The rounds of a run that calls tools."""
    _unbegun_stream: AttemptStream | None = field(default=None, init=False)
    """The stream of the first plan, until its attempt begins."""
    _asks_nobody: bool = field(default=False, init=False)
    """Whether the reply is made without an upstream."""
    _is_filtered: bool = field(default=False, init=False)
    """Whether a content filter ended the JSON reply of the last attempt before it had content."""
    _collector: ReplyCollector | None = field(default=None, init=False)
    """Collects the JSON reply of a run that calls tools."""

    @property
    def owner(self) -> str:
        return self.request.principal.owner

    @property
    def identity(self) -> ReplyIdentity:
        return self.request.identity

    @property
    def body(self) -> Json:
        """The body as the reply echoes it."""
        return self.attempt.body

    @property
    def plan(self) -> RelayPlan | TranslationPlan:
        """The plan of the attempt in progress."""
        return self.attempt.plan

    @property
    def loop_io(self) -> LoopIO | None:
        """The state of hosted tools; None if the gateway runs no tools while it produces the reply."""
        plan = self.attempt.plan
        return plan.loop_io if isinstance(plan, TranslationPlan) else None

    @property
    def may_have_run_tools(self) -> bool:
        """Whether the gateway runs tools while it produces the reply."""
        return self.loop_io is not None

    @property
    def streams(self) -> bool:
        """Whether the client asked for a stream."""
        return self.request.facts.streams

    async def store_beginning(self) -> None:
        """Stores the beginning of a foreground response before its reply begins.

        Raises StoreUnavailable, InvalidRequest and RunInProgress.
        """
        if isinstance(self.recorder, ForegroundRecorder):
            await self.recorder.begin_now()

    def build_stream(self) -> ReplyStream:
        """Returns the reply as a stream. Its sender commits the reply to `recorder` before it concludes the stream.

        The plan's exchange is used, so only one reply can be produced.
        """
        if self.attempts is None:
            return self.build_attempt_stream()
        is_whole = self.job is not None and not self.job.logged
        self._unbegun_stream = self.build_attempt_stream(is_begun=False)
        return AttemptedReply(self.attempts, self._unbegun_stream, is_whole=is_whole)

    def build_attempt_stream(self, *, is_begun: bool = True) -> AttemptStream:
        """Returns the stream of the plan of the attempt in progress."""
        attempt, request = self.attempt, self.request
        plan, presentation, body, identity = attempt.plan, attempt.presentation, attempt.body, request.identity
        endpoint, is_obfuscated = request.endpoint, request.facts.is_obfuscated
        observer = self._begin_attempt(attempt) if is_begun else self.observer
        unbegun, self._unbegun_stream = self._unbegun_stream, None
        if unbegun is not None and observer is self.observer:  # building one costs more than choosing the upstream
            return unbegun
        if isinstance(plan, RelayPlan):
            relay = plan.relay.make_relay(body, identity, presentation)
            if is_obfuscated:
                relay = ObfuscatingRelay(relay)
            if self._model_observer is not None:
                relay = ModelRelay(relay, self._model_observer.note_model)
            return RelayedReply(plan.exchange, relay, self.provider_hold, self._rejection_params, observer)
        encoder, event_stage = endpoint.reply.encoder(body, identity, presentation), plan.event_stage
        if is_obfuscated:
            encoder = ObfuscatingEncoder(encoder)
        if self._model_observer is not None:
            event_stage = ModelStage(event_stage, self._model_observer.note_model)
        return TranslatedReply(
            plan.exchange,
            event_stage,
            encoder,
            plan.params,
            self.provider_hold,
            self._rejection_params,
            observer,
        )

    def _begin_attempt(self, attempt: Attempt) -> RequestObserver:
        """Reports that an attempt begins, if it is not a round of hosted tools. Returns its observer."""
        observer, target, plan = self.observer, attempt.target, attempt.plan
        loop_io = plan.loop_io if isinstance(plan, TranslationPlan) else None
        if loop_io is None or self.attempts is not None:
            observer.observe_attempt(target.provider.name, 1, target.upstream_model)
        if loop_io is not None:
            is_shared = self.attempts is not None
            self._rounds = loop_io.observer = ObservedRounds(
                observer, target.provider.name, target.upstream_model, is_shared=is_shared
            )
        if target.chooses_model:
            observer = self._model_observer = ModelObserver(observer)
        return observer

    async def plan_attempt(self, index: int) -> None:
        """Replaces the plan by one for another target. Raises InvalidRequest if that cannot serve the request."""
        if self.plan_target is not None:
            self.attempt = await self.plan_target(self.request.route.find_target(index))
            self._unbegun_stream = None
            # Nobody gets the reply of the attempt before, so its losses do not count.
            self.late_losses = [loss for loss in self.late_losses if loss is UNSTORED]
            self._collector = None

    def begin_job(self) -> RequestFigures | None:
        """Adds what is known of the run to its log line, and begins to measure it. None if nobody measures it."""
        bind_fields(model=self.identity.model[:MAX_LOGGED_CHARS])
        if self.figures is not None:
            self.figures.restart()
        return self.figures

    def produce_reply(self) -> Awaitable[Json]:
        """Returns the reply as one JSON object: the same events as a stream, collected. It is stored before.

        Raises TurnFailed, ProviderError, StoreUnavailable, and InvalidRequest with the client's parameter name.
        """
        return self._produce_reply() if self.recorder is None else self._produce_and_store(self.recorder)

    async def _produce_and_store(self, recorder: ReplyRecorder) -> Json:
        recorder.begin_unsent()
        try:
            try:
                reply = await self._produce_reply()
            except Exception as error:
                if (failed := self._fail_reply(error)) is not None:
                    with suppress(StoreUnavailable):  # the client gets the error of the reply
                        await recorder.finish(failed)
                raise
            await recorder.finish(reply)
            return reply
        except asyncio.CancelledError:
            await recorder.abandon(self._fail_reply(ShuttingDown()))
            raise
        finally:
            await recorder.abandon(None)

    async def _produce_reply(self) -> Json:
        try:
            attempts = self.attempts
            return await (self._produce_attempt() if attempts is None else self._produce_by_attempts(attempts))
        except (ProviderError, TurnFailed) as error:
            self._rejection_params.name_param_of(error)
            raise

    def _produce_attempt(self) -> Awaitable[Json]:
        attempt = self.attempt
        plan, observer = attempt.plan, self._begin_attempt(attempt)
        if isinstance(plan, RelayPlan):
            return self._relay_reply(plan, observer)
        return self._translate_reply(plan, observer)

    async def _produce_by_attempts(self, attempts: SharedAttempts) -> Json:
        """Returns the reply of the first attempt that succeeds. It may be repeated until its last byte."""
        while True:
            await attempts.begin()
            has_failed = is_complete = False
            try:
                if (deadline := attempts.deadline) is None:
                    reply = await self._produce_attempt()
                else:
                    async with asyncio.timeout_at(deadline):
                        reply = await self._produce_attempt()
                if self._is_filtered and await attempts.move_on_filtered():
                    continue
                is_complete = True
                attempts.note_maker(reply)
                return reply
            except ATTEMPT_FAILURES as failure:
                error: Exception = failure
                has_failed = True
            except TimeoutError:
                error = attempts.build_timeout()
                has_failed = True
            finally:
                if not has_failed:
                    attempts.end_stream(is_complete=is_complete, has_failed=False)
            if not await attempts.move_on(error):
                raise attempts.find_failure(error) from error.__cause__

    def _fail_reply(self, error: Exception) -> Json | None:
        """Returns the failed JSON reply, with its content until `error` ended it; None if it had called no tool.

        Its tool calls cannot be undone, so the reply reports them.
        """
        if self._collector is None:
            return None
        if self._collector.failed is None:
            self._collector.feed([build_failed_event(error)])
        reply = self._collector.result()
        return reply if any(item["type"] in HOSTED_CALL_KINDS for item in reply.get("output", ())) else None

    @property
    def _rejection_params(self) -> RejectionParams:
        request = self.request
        return RejectionParams(request.endpoint.param_names, request.body, request.param_names)

    async def _relay_reply(self, plan: RelayPlan, observer: RequestObserver) -> Json:
        usage: Usage | None = None
        warnings: Sequence[Json] = ()
        unreported: Sequence[str] = ()
        failed: Failed | None = None
        reason: FinishReason | None = None
        attempt, identity = self.attempt, self.request.identity
        presentation, body = attempt.presentation, attempt.body
        try:
            answer = await plan.exchange.fetch_body()
            if isinstance(answer, bytes):
                if self._model_observer is not None and (named := find_model(answer)) is not None:
                    self._model_observer.note_model(named)
                # In a thread, because it has as many chunks as a long stream, and all at once.
                answer = await run_in_pool(plan.relay.collect_stream, body, answer, identity, presentation)
            else:
                if self._model_observer is not None and isinstance(model := answer.get("model"), str):
                    self._model_observer.note_model(model)
            if isinstance(reported := answer.get("usage"), dict):
                usage = plan.relay.read_usage(reported)
            reply = plan.relay.build_json(body, answer, identity, presentation)
            self._is_filtered = self.attempts is not None and plan.relay.is_filtered(reply)
            warnings, unreported = read_reply_warnings(reply), list_reply_losses(reply)
            reason = plan.relay.read_finish_reason(answer)
            return reply
        except TurnFailed as error:
            failed = error.failed
            raise
        finally:
            end = ReplyEnd(usage, warnings, unreported, failed, reason in CUT_OFF_REASONS, reason)
            observer.observe_end(end)
            if warnings or unreported:
                self._add_late_losses(end)

    async def _translate_reply(self, plan: TranslationPlan, observer: RequestObserver) -> Json:
        exchange, event_stage = plan.exchange, plan.event_stage
        if self._model_observer is not None:
            event_stage = ModelStage(event_stage, self._model_observer.note_model)
        attempt, request = self.attempt, self.request
        collector = request.endpoint.reply.collector(attempt.body, request.identity, attempt.presentation)
        self._collector = collector if plan.loop_io is not None else None
        facts: list[Json] = []
        last_events: Batch = ()
        has_content, watches_content = False, self.attempts is not None

        def collect(batch: Batch) -> None:
            nonlocal last_events, has_content
            events = batch if event_stage is None else event_stage.feed(batch)
            if watches_content and not has_content:
                has_content = has_content_events(last_events)
            facts.extend(collect_facts(events))
            last_events = events
            collector.feed(events)

        try:
            await as_batch_source(exchange).feed_to(collect)
        except InvalidRequest as error:
            if plan.params is not None:
                plan.params.rename_param_of(error)
            raise
        finally:
            end = read_end(last_events, facts, collector.failed)
            observer.observe_end(end)
            if facts:
                self._add_late_losses(end)
        if collector.failed is not None:
            raise TurnFailed(collector.failed)
        self._is_filtered = watches_content and not has_content and batch_is_filtered(last_events)
        return collector.result()

    def _add_late_losses(self, end: ReplyEnd) -> None:
        """Adds the losses that are known when a JSON reply has ended."""
        if end.warnings:
            self.late_losses = [*self.late_losses, *build_warning_losses(end.warnings)]
        if end.unreported:
            self.late_losses = [*self.late_losses, *map(build_reply_loss, end.unreported)]

    def build_loss_headers(self) -> dict[str, str]:
        """Returns the header `x-gateway-loss` with the losses known so far; empty if there are none."""
        losses = [*self.plan.losses, *self.late_losses] if self.late_losses else self.plan.losses
        return report_losses(losses) if losses else {}

    def build_early_headers(self) -> dict[str, str]:
        """Returns the headers that are known before the reply begins. With several upstreams they are known later."""
        if self.attempts is not None:
            return {}
        headers = self.build_upstream_headers()
        return self.build_loss_headers() | headers if self.late_losses or self.attempt.plan.losses else headers

    def build_queued_headers(self) -> dict[str, str]:
        """Returns the headers of the reply that a background response was accepted: nobody has been asked yet."""
        headers = {} if self.attempts is not None else self.build_loss_headers()
        return headers | build_upstream_headers(None, 0) if self.names_upstream else headers

    def build_upstream_headers(self) -> dict[str, str]:
        """Returns the headers that name the upstream and the number of attempts, unless they are turned off."""
        if not self.names_upstream:
            return {}
        if self.attempts is None:
            provider = self.attempt.target.provider.name
            if self._rounds is None:
                return {UPSTREAM_HEADER: provider, ATTEMPTS_HEADER: "1"}
            return build_upstream_headers(provider if self._rounds.count else None, self._rounds.count)
        return build_upstream_headers(self.attempts.upstream, self.attempts.attempt_count)

    def build_late_headers(self) -> dict[str, str]:
        """Returns the headers that are known once the upstream has replied: losses, the model, and relayed headers."""
        headers = self.build_upstream_headers()
        if self.late_losses or self.attempt.plan.losses:
            headers |= self.build_loss_headers()
        if self.request.endpoint.reply.relays_headers and isinstance(exchange := self.plan.exchange, HeaderedReply):
            headers |= exchange.reply_headers
        if self._model_observer is not None and self.request.facts.lists_models:
            model = self._model_observer.model
            if model is not None and model.isascii() and model.isprintable():
                headers[MODEL_HEADER] = model
        return headers

    @property
    def learns_upstream(self) -> bool:
        """Whether its upstream is known with its first content, and not before."""
        return self.attempts is not None

    def follow_job(self, store: Store, *, max_outage_s: float, hold_s: float) -> LogReplay:
        """Returns the stream of a run that is a job. See `LogReplay` for `hold_s`."""
        held_s = hold_s if self.learns_upstream else 0.0
        return LogReplay(store, self.owner, self.identity.id, max_outage_s=max_outage_s, hold_s=held_s)

    @property
    def late_headers(self) -> Callable[[], dict[str, str]] | None:
        """Returns the headers that are known once a stream begins, when it is called; None if there are none.

        Whether input was truncated is known once the upstream has accepted the shorter input, and which tools exist
        once their servers have listed them.
        """
        if self.attempts is not None:
            return self.build_late_headers
        if self.job is not None:
            return None
        facts, plan = self.request.facts, self.attempt.plan
        if facts.context.is_truncated or facts.lists_models:
            return self.build_late_headers
        learns_more = (
            self.request.endpoint.reply.relays_headers if isinstance(plan, RelayPlan) else plan.loop_io is not None
        )
        return self.build_late_headers if learns_more else None

    def report_unstored(self) -> None:
        """Adds a loss to the log line, and to headers that have not been sent: the reply could not be stored."""
        self.late_losses = [*self.late_losses, UNSTORED]
        self.build_loss_headers()

    def ask_nobody(self) -> None:
        """Makes the plan of the present attempt the only one. It asks no upstream."""
        self.attempts = None
        self._asks_nobody = True

    def find_stored_headers(self) -> StoredHeaders:
        """Returns the headers of the reply that are stored with it, as far as they are known."""
        if self._asks_nobody:
            return StoredHeaders(self.build_loss_headers().get(LOSS_HEADER))
        if self.attempts is None:
            return StoredHeaders(self.build_loss_headers().get(LOSS_HEADER), self.attempt.target.provider.name)
        if (upstream := self.attempts.upstream) is None:
            return StoredHeaders()  # the losses of the plan are those of an upstream that may never be asked
        return StoredHeaders(self.build_loss_headers().get(LOSS_HEADER), upstream)
