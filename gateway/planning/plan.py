"""Decides how a routed request is served: relayed, translated, or refused by parameter. Nothing is sent here."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gateway.planning.admitted_request import AdmittedRequest
from gateway.planning.capability_check import apply_capabilities
from gateway.planning.continuation import check_stored_items
from gateway.planning.hosted_tools import prepare_hosted_exchange
from gateway.planning.managed_context import prepare_managed_exchange
from gateway.planning.prepare_turn import lift_request, names_file, prepare_exchange
from gateway.planning.resolver import Target
from gateway.planning.stop_sequences import sends_stop
from gateway.planning.unreported_params import LogprobsCheck, ServiceTierCheck, requests_tier
from gateway.replies.client_params import ClientParams
from gateway.replies.endpoints import Endpoint, Presentation, RelaySpec
from gateway.replies.hosted_calls import HostedCallsStage
from gateway.replies.sentence_buffer import SentenceBuffer
from gateway.tools.host import ToolHost
from gateway.tools.loop_io import LoopIO
from gateway.tools.tool_events import ToolEvents
from providers.base import Exchange, RelayExchange
from translation.chat.upstream.lower_thinking import find_thinking_off
from translation.encoding.visible_output import InvisibleOutputCheck
from translation.errors import InvalidRequest, Unrepresentable
from translation.hygiene.call_tracker import CallRules
from translation.hygiene.past_calls import validate_relayed_calls
from translation.lowering.reasoning import find_thinking_losses
from translation.representation.delta_runs import EventStage
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.request_facts import RequestFacts
from translation.tools.searches import SEARCH_ITEM
from translation.tools.tool_rewriting import has_accepted_names


@dataclass(slots=True)
class RelayPlan:
    """Relays the request: the upstream gets the client's body, and its reply is forwarded with `call_rules` applied."""

    relay: RelaySpec
    exchange: RelayExchange
    losses: list[Loss]
    """The losses known so far. The exchange may add some while it runs."""
    call_rules: CallRules
    summarizes_reasoning: bool = False
    """Whether the client gets readable reasoning as a summary."""


@dataclass(slots=True)
class TranslationPlan:
    """Translates the request: the upstream gets a turn in its own dialect.

    `event_stage` maps the function calls of its events back to the client's tools; None if nothing has to be mapped.
    """

    exchange: Exchange
    event_stage: EventStage | None
    losses: list[Loss]
    """The losses known so far. The exchange may add some while it runs."""
    params: ClientParams | None = None
    """Renames parameters of an InvalidRequest that is raised only when the exchange is opened."""
    loop_io: LoopIO | None = None
    """The state of the hosted tools besides the exchange; None if the gateway runs no tools for the reply."""


def make_plan(request: AdmittedRequest, *, buffers_sentences: bool = False) -> RelayPlan | TranslationPlan:
    """Returns the plan for a request whose body is valid.

    With `buffers_sentences` the deltas of a stream are whole sentences. A stream with several choices is relayed
    unchanged, because only a relay can have several. Raises InvalidRequest; StoreUnavailable if the key to sealed
    reasoning cannot be loaded; Unrepresentable for the first loss of a strict request.
    """
    facts, target = request.facts, request.target
    try:
        if target.reasoning_seal is not None and isinstance(facts.input_value, list):
            target.reasoning_seal.check_input(facts.input_value, request.history_count or 0)
        if facts.wants_summary:
            target = target.with_summaries
            request = request.with_target(target)
        if target.profile.block_binding and request.is_strict:
            target = target.without_drops
            request = request.with_target(target)
        buffers_sentences = buffers_sentences and facts.streams and facts.choices == 1
        plan: RelayPlan | TranslationPlan | None = None
        # A relay would forward the thinking that a client does not expect.
        hides_thinking = request.hides_thinking and facts.starts_thinking
        if request.tool_host is None and not (buffers_sentences or hides_thinking):
            relay = find_relay(request.endpoint, facts, target)
            if relay is not None:
                plan = _plan_relay(request, relay)
        if plan is None:
            if request.refusal is not None:
                raise request.refusal
            plan = _plan_translation(request)
        if buffers_sentences and isinstance(plan, TranslationPlan):
            plan.event_stage = SentenceBuffer(plan.event_stage)
        if plan.losses:
            require_no_loss(plan.losses, strict=request.is_strict)
        return plan
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        check_stored_items(facts, request.history_count)
        raise


def find_tool_host(
    endpoint: Endpoint,
    facts: RequestFacts,
    target: Target,
    tool_host: ToolHost,
    allowed_servers: Sequence[str] = ("*",),
) -> ToolHost | None:
    """Returns the host of the tools in a request that its upstream does not run itself; None if there are none.

    `allowed_servers` are patterns of the labels of the operator's servers that the principal may use.
    """
    tools = facts.tools.hosted
    if not (tools or target.adds_tools):
        return None
    # Some kinds, such as a search for tools, are run by the upstream or by the client, as the tool says.
    own_tools = target.capabilities.hosted_tools | target.capabilities.tool_kinds
    servers_param = endpoint.param_names.servers.get("")
    if servers_param is None:
        tool_host = tool_host.leave_to_upstream(own_tools)
    else:
        tool_host = tool_host.leave_to_upstream(own_tools - {"mcp"})
        if not all(map(tool_host.runs_tool, (tool for tool in tools if tool["type"] == "mcp"))):
            _require_own_servers(endpoint, facts, target, servers_param)
    tool_host = tool_host.restrict_to_key(allowed_servers)
    if target.mcp_servers and tool_host.list_usable_labels(target.mcp_servers):
        return tool_host
    if target.added_tools and tool_host.runs_any_tool(target.added_tools):
        return tool_host
    if not (tools and tool_host.runs_any_tool(tools)):
        return None
    if find_relay(endpoint, facts, target):
        tool_host = tool_host.leave_to_upstream(target.capabilities.relayed_tools)
    return tool_host if tool_host.runs_any_tool(tools) else None


def _check_results(
    sampling: Mapping[str, Any], endpoint: Endpoint, losses: Sequence[Loss], event_stage: EventStage
) -> EventStage:
    """Returns the stage followed by checks whether the reply has the results that these parameters request."""
    if sampling.get("logprobs"):
        event_stage = LogprobsCheck(endpoint.param_names.logprobs, event_stage)
    if requests_tier(sampling) and all(loss.param != "service_tier" for loss in losses):
        event_stage = ServiceTierCheck(event_stage)
    return event_stage


def _list_hidden_calls(endpoint: Endpoint, tool_host: ToolHost) -> frozenset[str]:
    """Returns the types of the items of hosted calls that the API has no form for."""
    visible = {SEARCH_ITEM} if endpoint.reply.shows_search_results else set()
    return frozenset(tool_host.forms) - visible


def _require_own_servers(endpoint: Endpoint, facts: RequestFacts, target: Target, param: str) -> None:
    """Raises Unrepresentable unless the upstream of a relayed request runs the tools of the MCP servers that it names.

    Upstreams with another API have no such toolsets.
    """
    if "mcp" not in target.capabilities.relayed_tools or not find_relay(endpoint, facts, target):
        raise Unrepresentable(
            "this gateway does not run tools of MCP servers that a request names (tools.mcp.request_servers): leave "
            f"{param} out",
            param=param,
        )


def set_tool_options(
    endpoint: Endpoint, plan: RelayPlan | TranslationPlan, *, reports_events: bool, takes_input: bool
) -> None:
    """Sets the options of the client for hosted tools: whether it gets their events, which only an API with items for
    their calls has, and whether it can be asked for input."""
    if isinstance(plan, TranslationPlan) and plan.loop_io is not None:
        plan.loop_io.takes_input = takes_input
        if reports_events and endpoint.reply.has_hosted_items:
            plan.loop_io.events = ToolEvents()


def require_no_loss(losses: Sequence[Loss], *, strict: bool) -> None:
    """Raises Unrepresentable for the parameter of the first loss, if `strict` and there are any."""
    if losses and strict:
        listed = "; ".join(map(str, losses))
        message = f"strict mode is on, and the model's upstream cannot honour the whole request: {listed}"
        raise Unrepresentable(message, param=losses[0].param)


def find_relay(endpoint: Endpoint, facts: RequestFacts, target: Target) -> RelaySpec | None:
    """Returns how a request is relayed, if the upstream has the endpoint's API and the gateway need not work on it."""
    relay, can = endpoint.relay, target.capabilities
    if relay is None or relay.dialect not in target.relayed_dialects:
        return None
    sets_thinking = facts.sets_thinking or "thinking" in facts.features
    if facts.needs_translation or (sets_thinking and target.profile.thinking_switch != "none"):
        return None
    if not facts.features <= can.relayed_features:
        return None
    if facts.adds_stop and not sends_stop(target):
        return None
    if facts.context.needs_compaction and not can.manages_context:
        return None
    kinds = facts.tools.kinds
    if kinds and relay.has_other_kinds:
        kinds -= can.relayed_kinds
    return relay if kinds <= can.tool_kinds | can.hosted_tools | can.relayed_tools else None


def _plan_relay(request: AdmittedRequest, relay: RelaySpec) -> RelayPlan | None:
    """Returns the relay of a request; None if its tools need other names for the upstream, or it names files, as only a
    translation gives them. Raises InvalidRequest and StoreUnavailable."""
    endpoint, body, facts, target = request.endpoint, request.body, request.facts, request.target
    if relay.needs_no_checks is not None and relay.needs_no_checks(body, target.capabilities):
        lowered = relay.build_body(body, target.profile, model=target.upstream_model)
        exchange = target.provider.prepare_relay(relay.dialect, lowered.body, facts.tools.credentials)
        return RelayPlan(relay, exchange, [*lowered.losses, *exchange.losses], target.call_rules)
    known = body
    if request.refusal is not None and endpoint.request.keep_known is not None:
        known = endpoint.request.keep_known(body)
    turn = endpoint.request.lift(known, relayed=True)
    if not has_accepted_names(turn, target.profile.tool_names):
        return None
    params = ClientParams(endpoint.param_names, body, turn, request.history_count or 0)
    if request.files is not None and names_file(endpoint, known, turn):
        return None  # the upstream does not have the files that the ids stand for
    plan_losses: list[Loss] = []
    try:
        fitted, dropped = apply_capabilities(turn, target.capabilities, endpoint, plan_losses, relayed=True)
        if turn.thinking is not None and fitted.thinking is None:
            dropped |= endpoint.param_names.reasoning_keys
        # A body with values that are not known may have calls that the turn lacks: then their outputs have no calls.
        used_ids = (
            validate_relayed_calls(turn.items, is_self_contained=not relay.adds_items(body))
            if known is body
            else turn.call_pairs.call_ids
        )
        relayed_body = relay.remove_params(body, dropped) if dropped else body
        if relay.fit_input is not None:
            relayed_body, input_losses = relay.fit_input(
                relayed_body, target.reasoning_seal, target.profile, has_history=request.history_count is not None
            )
            plan_losses += params.rename_losses(input_losses)
    except InvalidRequest as error:
        params.rename_param_of(error)
        raise
    upstream_body, losses = relay.build_body(relayed_body, target.profile, model=target.upstream_model)
    plan_losses += losses
    # Only a profile that parses text looks for thinking in it.
    if target.profile.parsing_format != "direct_response":
        off = find_thinking_off(upstream_body)
        if off == "switch" or (off == "effort" and target.profile.think_open):
            relay = _present_closed(relay, think_open=False if off == "switch" else None)
    if facts.sets_thinking:
        plan_losses += find_thinking_losses(fitted.thinking, (fitted.reasoning or {}).get("effort"))
    if facts.has_extensions:
        plan_losses.append(Loss("extensions", "dropped"))
    exchange = _prepare_relay(request, relay, upstream_body, plan_losses.append)
    plan_losses += exchange.losses
    call_rules = CallRules(
        used_ids=used_ids,
        renames_ids=not facts.state.has_lasting_ids,
        max_args_bytes=target.profile.max_tool_args_bytes,
    )
    return RelayPlan(
        relay=relay,
        exchange=exchange,
        losses=plan_losses,
        call_rules=call_rules,
        summarizes_reasoning=target.profile.reasoning_part == "summary_text",
    )


def _present_closed(relay: RelaySpec, *, think_open: bool | None) -> RelaySpec:
    """Returns a relay for replies that do not begin inside thinking, because the upstream is asked not to think.

    By False they begin with the answer. By None the first tag decides: the server may ignore what it was asked.
    """

    def adapt(presentation: Presentation) -> Presentation:
        adapted = copy(presentation)
        common = presentation.common
        adapted.common = replace(common, profile=replace(common.profile, think_open=think_open))
        return adapted

    return replace(
        relay,
        make_relay=lambda body, identity, presentation: relay.make_relay(body, identity, adapt(presentation)),
        build_json=lambda body, reply, identity, presentation: relay.build_json(
            body, reply, identity, adapt(presentation)
        ),
        collect_stream=lambda body, stream, identity, presentation: relay.collect_stream(
            body, stream, identity, adapt(presentation)
        ),
    )


def _prepare_relay(
    request: AdmittedRequest, relay: RelaySpec, upstream_body: Json, report_loss: Callable[[Loss], None]
) -> RelayExchange:
    """Returns the exchange of a relay. If the gateway has to truncate the input, the upstream is not asked to.

    `report_loss` is called with losses that occur while the exchange runs.
    """
    endpoint, target = request.endpoint, request.target
    make_relay = partial(target.provider.prepare_relay, relay.dialect, credentials=request.facts.tools.credentials)
    is_truncated = request.facts.context.is_truncated and not target.capabilities.manages_context
    if endpoint.context is None or not is_truncated:
        return make_relay(upstream_body)
    return endpoint.context.truncate_relay(upstream_body, make_relay, report_loss)


def _plan_translation(request: AdmittedRequest) -> TranslationPlan:
    endpoint, facts = request.endpoint, request.facts
    turn, params = lift_request(request)
    if facts.tools.is_single_call:
        # A message has one legacy `function_call`, and a client that reads it does not look for others.
        request = request.with_target(request.target.with_single_calls)
    losses: list[Loss] = []
    event_stage: EventStage | None = None
    loop_io: LoopIO | None = None
    try:
        if request.tool_host is not None:
            exchange, turn_losses, loop_io = prepare_hosted_exchange(turn, request, request.tool_host, losses.append)
            if not endpoint.reply.has_hosted_items:
                event_stage = HostedCallsStage(
                    losses.append,
                    call_types=_list_hidden_calls(endpoint, request.tool_host),
                    joins_texts=endpoint.reply.joins_texts,
                    visible_servers={tool["server_label"] for tool in facts.tools.hosted if "server_label" in tool},
                )
        elif facts.context.is_managed:
            exchange, turn_losses, _ = prepare_managed_exchange(turn, request, losses.append)
        else:
            exchange, event_stage, turn_losses = prepare_exchange(turn, request.target, endpoint)
    except InvalidRequest as error:
        params.rename_param_of(error)
        raise
    reply = endpoint.reply
    # Clients of an API that cannot cite files may ask for extensions that do.
    cites_files = reply.cites_files or facts.has_extensions
    event_stage = InvisibleOutputCheck(reply.visible_items, event_stage, cites_files=cites_files)
    if turn.sampling:
        event_stage = _check_results(turn.sampling, endpoint, turn_losses, event_stage)
    if facts.tools.is_single_call:
        # The legacy form has no parallel calls, so the client loses nothing.
        turn_losses = [loss for loss in turn_losses if loss.param != "parallel_tool_calls"]
    losses += turn.losses
    if turn_losses:
        losses += params.rename_losses(turn_losses)
    return TranslationPlan(exchange, event_stage, losses, params, loop_io)
