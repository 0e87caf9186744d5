"""Chooses how the context of a request is compacted or truncated, and prepares turns that ask for it."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from gateway.planning.admitted_request import AdmittedRequest
from gateway.planning.compaction import CompactingExchange, SummaryExchange, build_summary_turn, require_compactable
from gateway.planning.prepare_turn import make_exchange_factory, prepare_exchange
from gateway.planning.resolver import Target
from gateway.planning.token_counting import exceeds_token_limit
from gateway.planning.truncation import ExchangeFactory, TruncatingExchange
from gateway.tools.loop_io import LoopIO
from providers.base import Exchange, ModelInspector
from translation.errors import Unrepresentable
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.turn import Turn
from translation.request_facts import ContextFacts

_COMPACTION_SHARE: Final = 0.75
"""The share of a known context window that triggers compaction, if the request has no threshold."""

_THRESHOLD_PARAM: Final = "context_management[0].compact_threshold"


class PreparedTurn(NamedTuple):
    """A turn that is ready to be sent: its exchange, and the losses that are known in advance.

    The events of the exchange are in the client's terms: see `MappedExchange`.
    """

    exchange: Exchange
    losses: Sequence[Loss]
    loop_io: LoopIO | None = None
    """What the loop of its hosted tools reads and writes besides its exchange; None if no tools are run."""


def prepare_managed_exchange(turn: Turn, request: AdmittedRequest, report_loss: Callable[[Loss], None]) -> PreparedTurn:
    """Returns the exchange that compacts, truncates, or both, as the request wants.

    `report_loss` is called with losses that occur while the exchange runs. Raises InvalidRequest; Unrepresentable if
    the upstream cannot count tokens.
    """
    if request.facts.context.has_trigger:
        return prepare_summary(turn, request)
    target, endpoint = request.target, request.endpoint
    _, _, losses = prepare_exchange(turn, target, endpoint)
    make_exchange = make_exchange_factory(target, endpoint)
    context = request.facts.context
    make_sent_exchange = truncate_turns(make_exchange, report_loss) if context.is_truncated else make_exchange
    limit = find_token_limit(context, target, request.history_tokens)
    if limit is None:
        return PreparedTurn(make_sent_exchange(turn), losses)
    files = request.loaded_files
    is_due = partial(exceeds_token_limit, limit, turn, request, request.history_tokens)
    return PreparedTurn(CompactingExchange(turn, make_exchange, make_sent_exchange, is_due, files), losses)


def prepare_summary(turn: Turn, request: AdmittedRequest) -> PreparedTurn:
    """Returns the exchange whose reply is a compaction of the whole input."""
    host = request.tool_host
    parts = require_compactable(turn) if host is None else require_compactable(turn, host.forms)
    _, _, losses = prepare_exchange(build_summary_turn(turn, parts.summarizable), request.target, request.endpoint)
    make_exchange = make_exchange_factory(request.target, request.endpoint)
    return PreparedTurn(SummaryExchange(turn, parts, make_exchange, request.loaded_files), losses)


def truncate_turns(make_exchange: ExchangeFactory, report_loss: Callable[[Loss], None]) -> ExchangeFactory:
    """Returns a factory whose exchanges leave out the oldest items of a turn that is too long, and report the loss."""
    return lambda turn: TruncatingExchange(turn, make_exchange, report_loss)


def find_token_limit(context: ContextFacts, target: Target, history_tokens: int | None) -> int | None:
    """Returns the number of tokens above which a request asks for a compaction; None if it asks for none.

    Raises Unrepresentable if the request has no threshold and the context window is unknown, and if the token count of
    the input is unknown.
    """
    if not context.is_compacted:
        return None
    if history_tokens is None and target.capabilities.counting == "none":
        raise Unrepresentable(
            "the model's upstream cannot count tokens, which context_management needs: leave it out",
            param="context_management",
        )
    if context.compact_threshold is not None:
        return int(context.compact_threshold)
    if target.compact_threshold is not None:
        return target.compact_threshold
    if (window := target.capabilities.max_context_window) is not None:
        return int(window * _COMPACTION_SHARE)
    raise Unrepresentable(
        "the size of this model's context window is not known: send compact_threshold", param=_THRESHOLD_PARAM
    )


async def fill_compaction_threshold(request: AdmittedRequest) -> AdmittedRequest:
    """Returns the request with a threshold of compaction, if it has none and only the upstream knows the window.

    The threshold is a share of the context window that the upstream reports. With several upstreams each has its own,
    and that of the one that answers counts. Any other request is returned unchanged.
    """
    form, route, context = request.endpoint.context, request.route, request.facts.context
    if form is None or not context.is_compacted or context.compact_threshold is not None:
        return request
    fields = form.list_extra_params(request.body)
    if route.sharing is not None:
        targets = await asyncio.gather(*(_learn_threshold(target, fields) for target in route.targets))
        place = route.targets.index(request.target)
        return replace(request, route=route.keep_targets(targets), target=targets[place])
    threshold = await _find_reported_threshold(request.target, fields)
    if threshold is None:
        return request
    facts = replace(request.facts, context=replace(context, compact_threshold=threshold))
    return replace(request, body=form.set_threshold(request.body, threshold), facts=facts)


async def _learn_threshold(target: Target, fields: Json) -> Target:
    """Returns a target with its threshold, if it may get turns."""
    candidate = target.candidate
    if candidate is None or candidate.weight == 0 or candidate.health.is_ejected:
        return target
    threshold = await _find_reported_threshold(target, fields)
    return target if threshold is None else replace(target, compact_threshold=threshold)


async def _find_reported_threshold(target: Target, fields: Json) -> int | None:
    """Returns the threshold by the context window that only the upstream knows; None if the configuration has one, or
    the upstream reports none."""
    provider = target.provider
    if target.capabilities.max_context_window is not None or not isinstance(provider, ModelInspector):
        return None
    window = (await provider.fetch_model_capabilities(target.upstream_model, fields)).get("max_context_window")
    return None if window is None else int(window * _COMPACTION_SHARE)
