"""Route and request to a plan: relay, translate, or a named refusal. Nothing is sent before this is done."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gateway.planning.capability_check import LOGPROBS, fit
from gateway.planning.logprobs import AskedLogprobs
from gateway.planning.managed_context import managed, needs_management
from gateway.planning.prepare_turn import lifted, said
from gateway.planning.resolver import Route
from gateway.replies.client_params import ClientParams
from gateway.replies.endpoints import Endpoint, legacy_functions
from gateway.replies.reply_streams import CallMapping
from providers.base import Capabilities, Exchange, RelayExchange
from translation.chat.relaying.request import asks_plainly
from translation.errors import InvalidRequest, Unrepresentable
from translation.hygiene.call_rules import DEFAULT_RULES, CallRules
from translation.hygiene.past_calls import check_relayed
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.responses.compaction import relayed_window
from translation.responses.lower import replayed


@dataclass(slots=True, kw_only=True)
class Relayed:
    """The upstream gets the client's body, its reply leaves as it came, but for the calls in it."""

    exchange: RelayExchange
    losses: Sequence[Loss]
    calls: CallRules


@dataclass(slots=True)
class Translated:
    """The upstream gets a turn in its own dialect; `calls` maps its function calls back to the client's tools."""

    exchange: Exchange
    calls: CallMapping | None
    losses: Sequence[Loss]
    params: ClientParams | None = None
    """Names what is refused only when the upstream has been asked about its model."""


def make_plan(
    endpoint: Endpoint, body: Json, route: Route, *, strict: bool, earlier: int | None = None, tokens: int | None = None
) -> Relayed | Translated:
    """`body` is valid. `earlier`: its input was put together here, and begins with that many items of history, of
    `tokens` tokens where that is known.

    Raises InvalidRequest, or in strict mode Unrepresentable for the first loss.
    """
    plan: Relayed | Translated
    if route.carrier is not None:
        route.carrier.check(body.get("input"), earlier or 0)
    if may_relay(endpoint, body, route):
        plan = _relay(endpoint, body, route, earlier)
    else:
        plan = _translate(endpoint, body, route, earlier, tokens)
    if plan.losses:
        check_strict(plan.losses, strict=strict or route.strict)
    return plan


def check_strict(losses: Sequence[Loss], *, strict: bool) -> None:
    """Raises Unrepresentable for the first loss, where none is wanted."""
    if losses and strict:
        lost = "; ".join(map(str, losses))
        message = f"strict mode, and the model's upstream cannot honour the whole request: {lost}"
        raise Unrepresentable(message, param=losses[0].param)


def may_relay(endpoint: Endpoint, body: Json, route: Route) -> bool:
    """The upstream speaks the endpoint's dialect, and nothing in the request is ours to do."""
    if not endpoint.relays:
        return False
    if endpoint.dialect not in route.capabilities.dialects or _changes_replies(route.profile):
        return False
    if body.get("thinking") is not None and route.profile.thinking_switch != "none":
        return False
    if endpoint.dialect == "responses":
        if needs_management(body) and not route.capabilities.manages_context:
            return False
        return (body.get("reasoning") or {}).get("max_tokens") is None
    if body.get("extensions"):
        return False
    tools = body.get("tools")
    return not tools or all(tool.get("type") in route.capabilities.tool_kinds for tool in tools)


def _changes_replies(profile: Profile) -> bool:
    """The reply's text has to be taken apart, or its items are not to be all that come."""
    if profile.parsing_format != "direct_response" or profile.two_pass != "off":
        return True
    if profile.tool_parser != "openai" or profile.text_tool_calls != "none":
        return True
    return profile.max_tool_calls_per_turn is not None or profile.fix_empty_final


def _is_fit(body: Json, capabilities: Capabilities) -> bool:
    """Whether there is nothing in a chat body for `fit` and `check_relayed` to find: so it is with most."""
    if capabilities.max_context_window is not None and (body.get("max_tokens") or body.get("max_completion_tokens")):
        return False
    return capabilities.streaming and asks_plainly(body)


def _relay(endpoint: Endpoint, body: Json, route: Route, earlier: int | None) -> Relayed:
    if endpoint.dialect == "chat" and _is_fit(body, route.capabilities):
        lowered = endpoint.relay_body(body, route.profile, model=route.upstream_model)
        exchange = route.provider.relay("chat", lowered.body)
        most = route.profile.max_tool_args_bytes
        calls = DEFAULT_RULES if most == DEFAULT_RULES.max_args_bytes else CallRules(max_args_bytes=most)
        return Relayed(exchange=exchange, losses=[*lowered.losses, *exchange.losses], calls=calls)
    turn = endpoint.lift(body, relayed=True)
    params = ClientParams(endpoint.dialect, body, turn, earlier or 0)
    unfit: list[Loss] = []
    try:
        fitted, dropped = fit(turn, route.capabilities, endpoint.dialect, unfit, relayed=True)
        ids = check_relayed(body, turn.items)
        kept = {name: value for name, value in body.items() if name not in dropped} if dropped else body
        if endpoint.dialect == "responses":
            kept = relayed_window(kept)
    except InvalidRequest as refused:
        params.rename(refused)
        raise
    found: Sequence[Loss] = ()
    if endpoint.dialect == "responses" and isinstance(kept.get("input"), list):
        again, found = _said_again(kept["input"], route, earlier)
        kept = {**kept, "input": again}
    upstream_body, losses = endpoint.relay_body(kept, route.profile, model=route.upstream_model)
    losses = [*(Loss(params.named(loss.param) or loss.param, loss.what) for loss in found), *losses]
    exchange = route.provider.relay(endpoint.dialect, upstream_body)
    thinking = fitted.thinking if "thinking" in body else None
    ours = (("thinking", thinking), ("extensions", body.get("extensions") or None))
    unsaid = [Loss(name, "dropped") for name, value in ours if value is not None]
    calls = CallRules(
        taken=ids, renames=not _is_kept_upstream(endpoint, body), max_args_bytes=route.profile.max_tool_args_bytes
    )
    return Relayed(exchange=exchange, losses=[*unfit, *losses, *unsaid, *exchange.losses], calls=calls)


def _is_kept_upstream(endpoint: Endpoint, body: Json) -> bool:
    """Whether the upstream itself keeps the reply to this body, so that requests go on from it there."""
    return endpoint.dialect == "responses" and (body.get("store") is not False or bool(body.get("conversation")))


def _said_again(given: Sequence[Item], route: Route, earlier: int | None) -> tuple[Sequence[Item], Sequence[Loss]]:
    """An input as the upstream of a relay gets it, and what it will not be told."""
    carrier = route.carrier
    if earlier is not None:
        return replayed(given if carrier is None else [carrier.opened(item) for item in given], route.profile)
    return (given, ()) if carrier is None else carrier.relayed(given, route.profile)


def _translate(endpoint: Endpoint, body: Json, route: Route, earlier: int | None, tokens: int | None) -> Translated:
    turn, params = lifted(endpoint, body, route, earlier or 0)
    one_call = endpoint.dialect == "chat" and legacy_functions(body)
    if one_call:
        # A message has one `function_call`, and who reads that does not look for others.
        route = replace(route, profile=replace(route.profile, max_tool_calls_per_turn=1))
    losses: list[Loss] = []
    calls: CallMapping | None = None
    try:
        if endpoint.dialect == "responses" and needs_management(body):
            exchange, found = managed(turn, body, route, tokens, losses.append)
        else:
            exchange, calls, found = said(turn, route, endpoint.dialect)
    except InvalidRequest as refused:
        params.rename(refused)
        raise
    if turn.sampling.get("logprobs"):
        calls = AskedLogprobs(LOGPROBS[endpoint.dialect], calls)
    if one_call:
        found = [loss for loss in found if loss.param != "parallel_tool_calls"]  # more are left out here
    losses += turn.lost
    if found:
        losses += [Loss(params.named(loss.param) or loss.param, loss.what) for loss in found]
    return Translated(exchange, calls, losses, params)
