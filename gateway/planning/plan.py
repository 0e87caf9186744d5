"""Decides how a routed request is served: relayed, translated, or refused by parameter. Nothing is sent here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from gateway.planning.capability_check import LOGPROBS_PARAMS, apply_capabilities
from gateway.planning.hosted_tools import prepare_hosted_exchange
from gateway.planning.managed_context import (
    asks_for_truncation,
    needs_compaction,
    needs_context_management,
    prepare_managed_exchange,
)
from gateway.planning.prepare_turn import lift_body, prepare_exchange
from gateway.planning.resolver import Route
from gateway.planning.truncating_relay import TruncatingRelay
from gateway.planning.unreported_params import LogprobsCheck, ServiceTierCheck, requests_tier
from gateway.replies.client_params import ClientParams
from gateway.replies.endpoints import Endpoint
from gateway.replies.hosted_calls import HostedCallsStage
from gateway.replies.sentence_buffer import SentenceBuffer
from gateway.sealing.sealer import is_sealed
from gateway.tools.approvals import ResponseApprovals
from gateway.tools.host import ToolHost
from gateway.tools.tool_events import ToolEvents
from gateway.tools.tool_run import ToolRun
from providers.base import Capabilities, Exchange, RelayExchange
from translation.chat.client.schema import uses_legacy_functions
from translation.chat.relaying.request import is_plain_request
from translation.errors import InvalidRequest, Unrepresentable
from translation.hygiene.call_tracker import DEFAULT_RULES, CallRules
from translation.hygiene.past_calls import validate_relayed_calls
from translation.lowering.reasoning import find_thinking_losses
from translation.messages.client.mcp_servers import lift_mcp_servers, list_server_names
from translation.messages.relaying.request import remove_sealed_blocks
from translation.representation.delta_runs import EventStage
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.responses.compaction import apply_compaction_to_body
from translation.responses.upstream.lower import lower_items


@dataclass(slots=True, kw_only=True)
class RelayPlan:
    """Relays the request: the upstream gets the client's body, and its reply is forwarded with `call_rules` applied."""

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
    tool_run: ToolRun | None = None
    """The state of the hosted tools besides the exchange; None if the gateway runs no tools for the reply."""


def make_plan(
    endpoint: Endpoint,
    body: Json,
    route: Route,
    *,
    strict: bool,
    history_count: int | None = None,
    history_tokens: int | None = None,
    buffers_sentences: bool = False,
    tool_host: ToolHost | None = None,
    approvals: ResponseApprovals | None = None,
    in_background: bool = False,
) -> RelayPlan | TranslationPlan:
    """Returns the plan for a validated body.

    With `buffers_sentences` the deltas of a stream are whole sentences. A stream with several choices is relayed
    unchanged, because only a relay can have several. `history_count` is the number of history items that the input
    begins with; None if the input is the client's own. `history_tokens` is the number of tokens of that history, if
    known. `tool_host` is the result of `find_tool_host` for this body. `approvals` are the approvals of its calls; None
    if no call can need one. `in_background`: no client waits for the reply. Raises InvalidRequest; StoreUnavailable if
    the key to sealed reasoning cannot be loaded; in strict mode Unrepresentable for the first loss.
    """
    plan: RelayPlan | TranslationPlan
    if route.reasoning_seal is not None:
        route.reasoning_seal.check_input(body.get("input"), history_count or 0)
    if endpoint.dialect == "responses" and _asks_for_summary(body):
        route = replace(route, profile=replace(route.profile, reasoning_part="summary_text"))
    buffers_sentences = buffers_sentences and bool(body.get("stream")) and (body.get("n") or 1) == 1
    if tool_host is None and may_relay(endpoint, body, route) and not buffers_sentences:
        plan = _plan_relay(endpoint, body, route, history_count)
    else:
        plan = _plan_translation(
            endpoint, body, route, history_count, history_tokens, tool_host, approvals, in_background=in_background
        )
        if buffers_sentences:
            plan.event_stage = SentenceBuffer(plan.event_stage)
    if plan.losses:
        require_no_loss(plan.losses, strict=strict or route.strict)
    return plan


def find_tool_host(
    endpoint: Endpoint, body: Json, route: Route, tool_host: ToolHost, allowed_servers: Sequence[str] = ("*",)
) -> ToolHost | None:
    """Returns the host of the tools in this body that its upstream does not run itself; None if there are none.

    `allowed_servers` are patterns of the labels of the operator's servers that the principal may use.
    """
    tools: Sequence[Json] | None = None
    if endpoint.dialect == "responses":
        tools = body.get("tools")
    elif endpoint.dialect == "messages":
        tools = lift_mcp_servers(body)
    if not (tools or route.mcp_servers):
        return None
    if endpoint.dialect != "messages":
        tool_host = tool_host.leave_to_upstream(route.capabilities.hosted_tools)
    elif tools and not all(map(tool_host.runs_tool, tools)):
        _require_own_servers(endpoint, body, route)
    if route.mcp_servers and (host := tool_host.restrict_to_key(allowed_servers)).list_usable_labels(route.mcp_servers):
        return host
    if not (tools and tool_host.runs_any_tool(tools)):
        return None
    if may_relay(endpoint, body, route):
        tool_host = tool_host.leave_to_upstream(route.capabilities.relayed_tools)
    return tool_host.restrict_to_key(allowed_servers) if tool_host.runs_any_tool(tools) else None


def _require_own_servers(endpoint: Endpoint, body: Json, route: Route) -> None:
    """Raises Unrepresentable unless the upstream of a relayed request runs the tools of the MCP servers that it names.

    Upstreams with another API have no toolsets like those of Messages.
    """
    if "mcp" not in route.capabilities.relayed_tools or not may_relay(endpoint, body, route):
        raise Unrepresentable(
            "this gateway does not run tools of MCP servers that a request names (tools.mcp.request_servers): leave "
            "mcp_servers out",
            param="mcp_servers",
        )


def set_tool_options(
    endpoint: Endpoint, plan: RelayPlan | TranslationPlan, *, reports_tools: bool, takes_input: bool
) -> None:
    """Sets the options of the client for hosted tools: whether it gets their events, which only the Responses API has,
    and whether it can be asked for input."""
    if isinstance(plan, TranslationPlan) and plan.tool_run is not None:
        plan.tool_run.takes_input = takes_input
        if reports_tools and endpoint.dialect == "responses":
            plan.tool_run.events = ToolEvents()


def require_no_loss(losses: Sequence[Loss], *, strict: bool) -> None:
    """Raises Unrepresentable for the parameter of the first loss, if `strict` and there are any."""
    if losses and strict:
        listed = "; ".join(map(str, losses))
        message = f"strict mode is on, and the model's upstream cannot honour the whole request: {listed}"
        raise Unrepresentable(message, param=losses[0].param)


def _asks_for_summary(body: Json) -> bool:
    """Whether a Responses body asks for a summary of the reasoning. Many clients display only summaries."""
    reasoning = body.get("reasoning") or {}
    return bool(reasoning.get("summary") or reasoning.get("generate_summary"))


def may_relay(endpoint: Endpoint, body: Json, route: Route) -> bool:
    """Whether the upstream supports the endpoint's dialect, and the request needs no work of the gateway."""
    if not endpoint.allows_relay:
        return False
    if endpoint.dialect not in route.capabilities.dialects or _changes_replies(route.profile):
        return False
    if endpoint.dialect == "messages":
        return True
    if body.get("thinking") is not None and route.profile.thinking_switch != "none":
        return False
    if endpoint.dialect == "responses":
        if needs_compaction(body) and not route.capabilities.manages_context:
            return False
        return (body.get("reasoning") or {}).get("max_tokens") is None
    if body.get("extensions"):
        return False
    tools = body.get("tools")
    return not tools or all(tool.get("type") in route.capabilities.tool_kinds for tool in tools)


def _changes_replies(profile: Profile) -> bool:
    """Whether the profile parses the text of replies, or adds or removes items, which a relay cannot do.

    `leading_think_tags` is for servers that may separate thinking themselves: a relay forwards their text unchanged.
    """
    if profile.parsing_format == "think_tags" or profile.two_pass != "off":
        return True
    if profile.tool_parser != "openai" or profile.text_tool_calls != "none":
        return True
    return profile.max_tool_calls_per_turn is not None or bool(profile.fix_empty_final)


def _needs_no_checks(body: Json, capabilities: Capabilities) -> bool:
    """Whether `apply_capabilities` and `validate_relayed_calls` have nothing to check in a chat body, as in most."""
    if capabilities.max_context_window is not None and (body.get("max_tokens") or body.get("max_completion_tokens")):
        return False
    if requests_tier(body) and not capabilities.service_tiers:
        return False
    return capabilities.streaming and is_plain_request(body)


def _plan_relay(endpoint: Endpoint, body: Json, route: Route, history_count: int | None) -> RelayPlan:
    if endpoint.dialect == "chat" and _needs_no_checks(body, route.capabilities):
        lowered = endpoint.relay_body(body, route.profile, model=route.upstream_model)
        exchange = route.provider.prepare_relay("chat", lowered.body)
        max_args_bytes = route.profile.max_tool_args_bytes
        call_rules = (
            DEFAULT_RULES
            if max_args_bytes == DEFAULT_RULES.max_args_bytes
            else CallRules(max_args_bytes=max_args_bytes)
        )
        return RelayPlan(exchange=exchange, losses=[*lowered.losses, *exchange.losses], call_rules=call_rules)
    turn = endpoint.lift(body, relayed=True)
    params = ClientParams(endpoint.param_names, body, turn, history_count or 0)
    capability_losses: list[Loss] = []
    try:
        fitted, dropped = apply_capabilities(
            turn, route.capabilities, endpoint.dialect, capability_losses, relayed=True
        )
        used_ids = validate_relayed_calls(body, turn.items)
        relayed_body = {name: value for name, value in body.items() if name not in dropped} if dropped else body
        if endpoint.dialect == "responses":
            relayed_body = apply_compaction_to_body(relayed_body)
    except InvalidRequest as error:
        params.rename_param_of(error)
        raise
    input_losses: Sequence[Loss] = ()
    if endpoint.dialect == "responses" and isinstance(relayed_body.get("input"), list):
        relayed_input, input_losses = _build_relayed_input(relayed_body["input"], route, history_count)
        relayed_body = {**relayed_body, "input": relayed_input}
    if endpoint.dialect == "messages":
        messages = remove_sealed_blocks(relayed_body["messages"], is_sealed, capability_losses)
        relayed_body = {**relayed_body, "messages": messages}
    upstream_body, losses = endpoint.relay_body(relayed_body, route.profile, model=route.upstream_model)
    losses = [*(Loss(params.find_client_name(loss.param) or loss.param, loss.effect) for loss in input_losses), *losses]
    plan_losses = [*capability_losses, *losses]
    if "thinking" in body and endpoint.dialect != "messages":
        plan_losses += find_thinking_losses(fitted.thinking, (fitted.reasoning or {}).get("effort"))
    if body.get("extensions"):
        plan_losses.append(Loss("extensions", "dropped"))
    exchange = _prepare_relay(endpoint, upstream_body, route, plan_losses.append)
    plan_losses += exchange.losses
    call_rules = CallRules(
        used_ids=used_ids,
        renames_ids=not _is_stored_upstream(endpoint, body),
        max_args_bytes=route.profile.max_tool_args_bytes,
    )
    return RelayPlan(
        exchange=exchange,
        losses=plan_losses,
        call_rules=call_rules,
        summarizes_reasoning=route.profile.reasoning_part == "summary_text",
    )


def _prepare_relay(
    endpoint: Endpoint, upstream_body: Json, route: Route, report_loss: Callable[[Loss], None]
) -> RelayExchange:
    """Returns the exchange of a relay. If the gateway has to truncate the input, the upstream is not asked to.

    `report_loss` is called with losses that occur while the exchange runs.
    """
    make_relay = partial(route.provider.prepare_relay, endpoint.dialect)
    if endpoint.dialect != "responses" or route.capabilities.manages_context or not asks_for_truncation(upstream_body):
        return make_relay(upstream_body)
    body = {name: value for name, value in upstream_body.items() if name != "truncation"}
    return TruncatingRelay(body, make_relay, report_loss)


def _is_stored_upstream(endpoint: Endpoint, body: Json) -> bool:
    """Whether the upstream stores the reply to this body, so that later requests refer to the upstream's own ids."""
    return endpoint.dialect == "responses" and (body.get("store") is not False or bool(body.get("conversation")))


def _build_relayed_input(
    input_items: Sequence[Item], route: Route, history_count: int | None
) -> tuple[Sequence[Item], Sequence[Loss]]:
    """Returns the input items that the upstream of a relay gets, and the losses of building them."""
    seal = route.reasoning_seal
    if history_count is not None:
        return lower_items(
            input_items if seal is None else [seal.unseal_item(item) for item in input_items], route.profile
        )
    return (input_items, ()) if seal is None else seal.unseal_relayed_items(input_items, route.profile)


def _plan_translation(
    endpoint: Endpoint,
    body: Json,
    route: Route,
    history_count: int | None,
    history_tokens: int | None,
    tool_host: ToolHost | None = None,
    approvals: ResponseApprovals | None = None,
    *,
    in_background: bool,
) -> TranslationPlan:
    turn, params = lift_body(endpoint, body, route, history_count or 0)
    is_single_call = endpoint.dialect == "chat" and uses_legacy_functions(body)
    if is_single_call:
        # A message has one legacy `function_call`, and a client that reads it does not look for others.
        route = replace(route, profile=replace(route.profile, max_tool_calls_per_turn=1))
    losses: list[Loss] = []
    event_stage: EventStage | None = None
    tool_run: ToolRun | None = None
    try:
        if tool_host is not None:
            exchange, turn_losses, tool_run = prepare_hosted_exchange(
                turn,
                body,
                route,
                tool_host,
                losses.append,
                approvals,
                endpoint.dialect,
                history_tokens=history_tokens,
                in_background=in_background,
            )
            if endpoint.dialect != "responses":
                event_stage = HostedCallsStage(
                    losses.append,
                    joins_texts=endpoint.joins_texts,
                    visible_servers=list_server_names(body) if endpoint.dialect == "messages" else frozenset(),
                )
        elif endpoint.dialect == "responses" and needs_context_management(body):
            exchange, turn_losses = prepare_managed_exchange(turn, body, route, history_tokens, losses.append)
        else:
            exchange, event_stage, turn_losses = prepare_exchange(turn, route, endpoint.dialect)
    except InvalidRequest as error:
        params.rename_param_of(error)
        raise
    if turn.sampling.get("logprobs"):
        event_stage = LogprobsCheck(LOGPROBS_PARAMS[endpoint.dialect], event_stage)
    if requests_tier(turn.sampling) and all(loss.param != "service_tier" for loss in turn_losses):
        event_stage = ServiceTierCheck(event_stage)
    if is_single_call:
        # The legacy form has no parallel calls, so the client loses nothing.
        turn_losses = [loss for loss in turn_losses if loss.param != "parallel_tool_calls"]
    losses += turn.losses
    if turn_losses:
        losses += [Loss(params.find_client_name(loss.param) or loss.param, loss.effect) for loss in turn_losses]
    return TranslationPlan(exchange, event_stage, losses, params, tool_run)
