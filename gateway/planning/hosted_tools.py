"""Prepares turns with tools that the gateway runs: several rounds of the model and of tools are one reply."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from gateway.planning.body_views import SEALED_REASONING
from gateway.planning.compaction import LoopCompactor, SummaryExchange, build_summary_turn, require_compactable
from gateway.planning.managed_context import (
    asks_for_truncation,
    find_threshold,
    make_truncating_exchange,
    require_token_counts,
)
from gateway.planning.prepare_turn import make_exchange_factory, prepare_exchange, prepare_mapped_exchange
from gateway.planning.resolver import Route
from gateway.replies.hosted_calls import build_server_loss
from gateway.sealing.reply_seal import ReplyItemSeal
from gateway.tools.approvals import ResponseApprovals
from gateway.tools.exchange_factory import LoopOptions, make_loop_exchange
from gateway.tools.host import ToolHost
from gateway.tools.tool_run import ToolRun
from providers.base import Dialect, Exchange
from translation.errors import Unrepresentable
from translation.hosted.past_hosted_calls import resolve_history
from translation.hosted.tools import model_name_of
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.turn import Turn
from translation.responses.compaction import find_lowest_threshold, has_compaction_trigger

_TOOL_PARAM: Final = re.compile(r"tools\[(\d+)\]")


class HostedExchange(NamedTuple):
    """An exchange whose events are in the client's terms (see `MappedExchange`), and its losses known in advance."""

    exchange: Exchange
    losses: Sequence[Loss]
    tool_run: ToolRun | None
    """None if no tools are run, because the reply is a summary of the input."""


def prepare_hosted_exchange(
    turn: Turn,
    body: Json,
    route: Route,
    tool_host: ToolHost,
    report_loss: Callable[[Loss], None],
    approvals: ResponseApprovals | None = None,
    dialect: Dialect = "responses",
    *,
    history_tokens: int | None = None,
    in_background: bool = False,
) -> HostedExchange:
    """Returns the exchange that runs the hosted tools of a turn. With `truncation: auto` each round may be truncated.

    `dialect` is the client's API. `in_background`: no client waits for the reply. `approvals` may be None if no call
    can need one. `history_tokens` is the number of tokens of the turn's history, if known. `report_loss` is called with
    losses that occur while the exchange runs. Raises InvalidRequest; Unrepresentable if the upstream has no tools, or
    cannot count tokens for a compaction.
    """
    _require_tools(body, route)
    if dialect == "responses" and has_compaction_trigger(body.get("input")):
        return _prepare_summary(turn, route)
    _add_servers(turn, route, tool_host)
    make_round = make_exchange_factory(route, dialect)
    is_truncated = dialect == "responses" and asks_for_truncation(body)
    if is_truncated:
        make_round = partial(make_truncating_exchange, make_round, report_loss)
    tool_run = ToolRun(report_loss=report_loss)
    compactor = None
    entry = find_lowest_threshold(body.get("context_management")) if dialect == "responses" else None
    if entry is not None:
        require_token_counts(route, history_tokens)
        limit = find_threshold(entry, route)
        seal_item = _build_seal(route, body)
        compactor = LoopCompactor(route, limit, history_tokens, make_exchange_factory(route), seal_item, tool_run)
    exchange = make_loop_exchange(
        tool_host,
        turn,
        make_round,
        _read_options(body, route, dialect, in_background=in_background),
        approvals=approvals,
        compactor=compactor,
        tool_run=tool_run,
    )
    turn.losses = [loss for loss in turn.losses if loss.param != "max_tool_calls"]
    losses: Sequence[Loss] | None = None
    if not is_truncated:  # the rounds are prepared when their length is known
        losses = exchange.prepare_first_round(partial(prepare_mapped_exchange, route=route, dialect=dialect))
    if losses is None:
        _, _, losses = prepare_exchange(_build_probe_turn(turn, tool_host), route, dialect)
    elif losses:
        own_count = len(tool_host.remove_hosted_tools(turn).tools)
        losses = [loss for loss in losses if _is_of_client(loss, own_count)]
    return HostedExchange(exchange, losses, tool_run)


async def find_first_turn(
    turn: Turn,
    body: Json,
    route: Route,
    tool_host: ToolHost,
    approvals: ResponseApprovals | None = None,
    dialect: Dialect = "responses",
) -> tuple[Turn, Sequence[Loss]]:
    """Returns the first turn of the model, with the tools that the servers list now, and its losses.

    The parameters are the same as for `prepare_hosted_exchange`. Raises what that raises, ToolListFailed, and
    Unrepresentable if the turn is not known yet.
    """
    _require_tools(body, route)
    _add_servers(turn, route, tool_host)
    exchange = make_loop_exchange(
        tool_host,
        turn,
        make_exchange_factory(route, dialect),
        _read_options(body, route, dialect, in_background=False),
        approvals=approvals,
        tool_run=ToolRun(),
    )
    first_turn, missing = await exchange.find_first_turn()
    if first_turn is None:
        raise Unrepresentable(
            "the input approves a call, whose result is not known before it has run: count without the approval",
            param="input",
        )
    return first_turn, [build_server_loss(label) for label in missing]


def _read_options(body: Json, route: Route, dialect: Dialect, *, in_background: bool) -> LoopOptions:
    return LoopOptions(
        max_tool_calls=body.get("max_tool_calls") if dialect == "responses" else None,
        in_background=in_background,
        sees_images=route.capabilities.images,
        # Chat has no items for hosted calls, so that a client cannot send them back with the outputs of its own calls.
        runs_with_client_calls=dialect == "responses",
    )


def _require_tools(body: Json, route: Route) -> None:
    if not route.capabilities.tools:
        what_to_do = "leave out tools" if body.get("tools") else "the operator has to take tools.mcp from the model"
        raise Unrepresentable(f"the model's upstream does not support tools; {what_to_do}", param="tools")


def _add_servers(turn: Turn, route: Route, tool_host: ToolHost) -> None:
    """Adds the servers that the model's configuration names, and the descriptions of the request's own servers."""
    _describe_servers(turn, tool_host)
    if route.mcp_servers:
        turn.tools = [*turn.tools, *tool_host.build_model_tools(turn.tools, route.mcp_servers)]


def _prepare_summary(turn: Turn, route: Route) -> HostedExchange:
    """Returns the exchange whose reply is a compaction of the whole input. It needs no MCP server."""
    parts = require_compactable(turn)
    _, _, losses = prepare_exchange(build_summary_turn(turn, parts.summarizable), route, "responses")
    return HostedExchange(SummaryExchange(turn, parts, make_exchange_factory(route)), losses, None)


def _build_seal(route: Route, body: Json) -> Callable[[Item], Item]:
    """Returns a function that seals items which a compaction retains, in the same way as items for the client."""
    if route.reasoning_seal is None:
        return lambda item: item
    return ReplyItemSeal(route.reasoning_seal, SEALED_REASONING in (body.get("include") or ())).seal_done_item


def _describe_servers(turn: Turn, tool_host: ToolHost) -> None:
    """Adds the descriptions of the request's servers to the instructions of its turn, and their losses to its losses.

    Models know only functions, which have no groups with descriptions.
    """
    texts: list[str] = []
    losses: list[Loss] = []
    for position, tool in enumerate(turn.tools):
        if not tool_host.runs_tool(tool):
            continue
        if tool.get("server_description"):
            texts.append(f"The tools of the server {tool['server_label']!r}: {tool['server_description']}")
        if tool.get("defer_loading"):
            losses.append(Loss(f"tools[{position}].defer_loading", "dropped"))
        if "direct" not in (tool.get("allowed_callers") or ("direct",)):
            losses.append(Loss(f"tools[{position}].allowed_callers", "dropped"))
    if texts:
        turn.instructions = "\n\n".join(filter(None, [turn.instructions, *texts]))
    turn.losses = [*turn.losses, *losses]


def _build_probe_turn(turn: Turn, tool_host: ToolHost) -> Turn:
    """Returns the turn without the tools of servers, to find errors and losses before the servers list their tools."""
    own = tool_host.remove_hosted_tools(turn)
    choice = own.tool_choice if own.tools and not _names_hosted(own.tool_choice, tool_host) else None
    return replace(
        own, items=resolve_history(own.items, model_name_of, forms=tool_host.forms).items, tool_choice=choice
    )


def _is_of_client(loss: Loss, own_count: int) -> bool:
    """Whether a loss of a round concerns the client's request, and not the tools of servers, which follow the client's
    `own_count` tools."""
    index = _TOOL_PARAM.match(loss.param)
    return index is None or int(index[1]) < own_count


def _names_hosted(choice: str | Json | None, tool_host: ToolHost) -> bool:
    if not isinstance(choice, dict):
        return choice == "required"
    return any(map(tool_host.runs_tool, [choice, *(choice.get("tools") or ())]))
