"""Plans requests, and makes the runs that produce their replies."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from gateway.config.settings import Settings
from gateway.planning.admitted_request import AdmittedRequest
from gateway.planning.plan import RelayPlan, TranslationPlan, make_plan, require_no_loss, set_tool_options
from gateway.replies.endpoints import Presentation
from gateway.replies.observers import LOG_OBSERVER, Observer
from gateway.sealing.reply_seal import ReplyItemSeal
from gateway.service.admission import rename_param_of
from gateway.service.provider_lifetimes import ProviderHold
from gateway.service.run import NO_ATTEMPTS, Attempt, Run
from providers.redaction import Redactor
from translation.errors import InvalidRequest
from translation.framing.sse import DEFAULT_MAX_FRAME_BYTES
from translation.hygiene.call_tracker import DEFAULT_RULES
from translation.representation.json_types import Json

_MB: Final = 1024 * 1024


class RunFactory:
    """Plans requests. There is one per configuration, and every run keeps its `provider_hold`."""

    def __init__(
        self, settings: Settings, provider_hold: ProviderHold | None = None, observer: Observer = LOG_OBSERVER
    ) -> None:
        self._observer = observer
        self._provider_hold = provider_hold
        self._max_frame_bytes = {name: int(config.max_line_mb * _MB) for name, config in settings.providers.items()}
        self._reasoning_fields = frozenset(settings.server.reasoning_fields)
        self._buffers_sentences = settings.server.sentence_buffer
        self._reports_tools = settings.tools.events
        self._clock: Callable[[], int] = lambda: int(time.time())

    def build_run(
        self, request: AdmittedRequest, view: Json, *, planned: AdmittedRequest | None = None, is_stored: bool = False
    ) -> Run:
        """Returns the run of a request. `view` is the body that its reply echoes.

        `planned` is the request for the upstream, if it is another one: with the history as its input, or without
        parameters that the gateway has. With several targets, it is planned for the first that can serve it; the others
        are left for failures. Raises the refusal of the first target if none can: InvalidRequest; and StoreUnavailable.
        """
        planned = planned or request
        further_attempts = NO_ATTEMPTS
        if len(request.route.targets) == 1:
            attempt = self._plan_attempt(request, planned, is_stored=is_stored)
        else:
            further_attempts = self._plan_attempts(request, planned, is_stored=is_stored)
            attempt = next(further_attempts)
        observer = self._observer.observe_request(
            request.endpoint.name, request.route.name, streams=request.facts.streams
        )
        return Run(request, view, attempt, observer, self._provider_hold, further_attempts)

    def _plan_attempts(
        self, request: AdmittedRequest, planned: AdmittedRequest, *, is_stored: bool
    ) -> Iterator[Attempt]:
        """Yields the attempts at the targets that can serve the request. Raises the first refusal if none can."""
        refusal: InvalidRequest | None = None
        has_attempt = False
        for target in request.route.targets:
            try:
                attempt = self._plan_attempt(request, planned._replace(target=target), is_stored=is_stored)
            except InvalidRequest as error:
                refusal = refusal or error
                continue
            has_attempt = True
            yield attempt
        if refusal is not None and not has_attempt:
            raise refusal

    def _plan_attempt(self, request: AdmittedRequest, planned: AdmittedRequest, *, is_stored: bool) -> Attempt:
        try:
            plan = make_plan(planned, buffers_sentences=self._buffers_sentences)
        except InvalidRequest as error:
            if not request.param_names:
                raise
            raise rename_param_of(error, request.param_names) from None
        if planned.tool_host is not None:
            tools = request.facts.tools
            reports = tools.reports_events or self._reports_tools
            set_tool_options(request.endpoint, plan, reports_events=reports, takes_input=tools.takes_input)
        if request.losses or request.param_names:
            # The plan may add losses to this list while it runs, so the list itself stays.
            plan.losses[:] = request.rename_losses(plan.losses)
            require_no_loss(request.losses, strict=request.is_strict)
        presentation = self._build_presentation(request, planned, plan, is_stored=is_stored)
        return Attempt(planned.target, plan, presentation)

    def _build_presentation(
        self, request: AdmittedRequest, planned: AdmittedRequest, plan: RelayPlan | TranslationPlan, *, is_stored: bool
    ) -> Presentation:
        target, route_name = planned.target, request.route.name
        item_seal = None
        if target.reasoning_seal is not None:
            carries_seals = request.endpoint.reply.carries_seals or request.facts.wants_sealed_reasoning
            item_seal = ReplyItemSeal(target.reasoning_seal, carries_seals)
        call_rules, summarizes_reasoning = DEFAULT_RULES, False
        if isinstance(plan, RelayPlan):
            call_rules, summarizes_reasoning = plan.call_rules, plan.summarizes_reasoning
        return Presentation(
            self._reasoning_fields,
            self._max_frame_bytes.get(target.provider.name, DEFAULT_MAX_FRAME_BYTES),
            self._clock,
            None if route_name == target.upstream_model else route_name,
            target.profile,
            is_stored,
            build_redactor(planned.facts.tools.credentials, target.provider.redact),
            item_seal,
            call_rules,
            summarizes_reasoning,
            request.hides_thinking,
        )


def build_redactor(credentials: Sequence[str], redact: Callable[[str], str]) -> Callable[[str], str]:
    """Returns the function that redacts an upstream's message about a request.

    Such a message may quote credentials of the request's tools, and of the provider, which `redact` removes.
    """
    if not credentials:
        return redact
    redactor = Redactor(credentials)
    return lambda message: redactor.redact(redact(message))
