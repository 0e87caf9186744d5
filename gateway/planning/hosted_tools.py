"""Prepares turns with tools that the gateway runs: several rounds of the model and of tools are one reply."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from gateway.planning.admitted_request import AdmittedRequest
from gateway.planning.compaction import LoopCompactor
from gateway.planning.managed_context import PreparedTurn, find_token_limit, prepare_summary, truncate_turns
from gateway.planning.prepare_turn import make_exchange_factory, prepare_exchange, prepare_mapped_exchange
from gateway.planning.resolver import Target
from gateway.replies.endpoints import Endpoint
from gateway.replies.hosted_calls import build_server_loss
from gateway.sealing.reply_seal import ReplyItemSeal
from gateway.tools.exchange_factory import LoopOptions, make_loop_exchange
from gateway.tools.host import ToolHost
from gateway.tools.loop_io import LoopIO
from translation.errors import Unrepresentable
from translation.hosted.past_hosted_calls import resolve_history
from translation.hosted.tool_search.deferred_tools import remove_deferral
from translation.hosted.tools import model_name_of
from translation.lowering.client_search import list_other_keys
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.turn import Turn
from translation.request_facts import RequestFacts

_TOOL_PARAM: Final = re.compile(r"tools\[(\d+)\]")


def prepare_hosted_exchange(
    turn: Turn, request: AdmittedRequest, tool_host: ToolHost, report_loss: Callable[[Loss], None]
) -> PreparedTurn:
    """Returns the exchange that runs the hosted tools of a request's turn. Each round may be truncated if it asks so.

    `report_loss` is called with losses that occur while the exchange runs. Raises InvalidRequest; Unrepresentable if
    the upstream has no tools, or cannot count tokens for a compaction.
    """
    endpoint, target, facts = request.endpoint, request.target, request.facts
    context = facts.context
    _require_tools(turn, target)
    if context.has_trigger:
        return prepare_summary(turn, request)
    tool_losses = tool_host.find_losses(turn.tools)
    _add_servers(turn, target, tool_host)
    _unseal_results(turn, target, tool_host)
    loop_io = LoopIO(report_loss=report_loss, trained_tools=target.capabilities.trained_tools)
    make_exchange = make_exchange_factory(target, endpoint)
    compactor = None
    if (limit := find_token_limit(context, target, request.history_tokens)) is not None:
        seal = _find_item_seal(target, carries_seals=facts.wants_sealed_reasoning)
        compactor = LoopCompactor(request, limit, make_exchange, seal, loop_io)
    exchange = make_loop_exchange(
        tool_host,
        turn,
        truncate_turns(make_exchange, report_loss) if context.is_truncated else make_exchange,
        _choose_loop_options(facts, target, endpoint, in_background=request.in_background),
        approvals=request.approvals,
        compactor=compactor,
        loop_io=loop_io,
    )
    own_losses = turn.upstream_losses
    turn.losses = [loss for loss in turn.losses if loss.param != "max_tool_calls" and loss not in own_losses]
    losses: Sequence[Loss] | None = None
    if not context.is_truncated:  # the rounds are prepared when their length is known
        prepare_round = partial(prepare_mapped_exchange, target=target, endpoint=endpoint)
        losses = exchange.prepare_first_round(prepare_round)
    if losses is None:
        _, _, losses = prepare_exchange(_build_probe_turn(turn, tool_host), target, endpoint)
    elif losses:
        own_count = len(tool_host.remove_hosted_tools(turn).tools)
        losses = [loss for loss in losses if _is_of_client(loss, own_count)]
    return PreparedTurn(exchange, [*tool_losses, *losses], loop_io)


async def find_first_turn(turn: Turn, request: AdmittedRequest, tool_host: ToolHost) -> tuple[Turn, Sequence[Loss]]:
    """Returns the first turn of the model, with the tools that the servers list now, and its losses.

    The parameters are the same as for `prepare_hosted_exchange`. Raises what that raises, ToolListFailed, and
    Unrepresentable if the turn is not known yet.
    """
    endpoint, target = request.endpoint, request.target
    _require_tools(turn, target)
    _add_servers(turn, target, tool_host)
    _unseal_results(turn, target, tool_host)
    exchange = make_loop_exchange(
        tool_host,
        turn,
        make_exchange_factory(target, endpoint),
        _choose_loop_options(request.facts, target, endpoint, in_background=request.in_background),
        approvals=request.approvals,
        loop_io=LoopIO(trained_tools=target.capabilities.trained_tools),
    )
    first_turn, missing = await exchange.find_first_turn()
    if first_turn is None:
        raise Unrepresentable(
            "the input approves a call, whose result is not known before it has run: count without the approval",
            param="input",
        )
    return first_turn, [build_server_loss(label) for label in missing]


def _choose_loop_options(
    facts: RequestFacts, target: Target, endpoint: Endpoint, *, in_background: bool
) -> LoopOptions:
    """Returns what a request, its upstream and its API say about the loop of its tools."""
    return LoopOptions(
        max_tool_calls=facts.tools.max_calls,
        in_background=in_background,
        sees_images=target.capabilities.images,
        trained_tools=target.capabilities.trained_tools,
        # Without items for hosted calls, a client cannot send them back with the outputs of its own calls.
        runs_with_client_calls=endpoint.reply.has_hosted_items,
    )


def _require_tools(turn: Turn, target: Target) -> None:
    if not target.capabilities.tools:
        what_to_do = "leave out tools" if turn.tools else "the operator has to take tools.mcp from the model"
        raise Unrepresentable(f"the model's upstream does not support tools; {what_to_do}", param="tools")


def _add_servers(turn: Turn, target: Target, tool_host: ToolHost) -> None:
    """Adds the servers that the model's configuration names, and the descriptions of the request's own servers."""
    _describe_servers(turn, tool_host)
    if target.mcp_servers:
        turn.tools = [*turn.tools, *tool_host.build_model_tools(turn.tools, target.mcp_servers)]
    if target.added_tools:
        own = [tool for tool in target.added_tools if tool_host.runs_tool(tool)]
        kinds = {str(tool["type"]) for tool in turn.tools}
        # A tool of the request may have a version: web_search_2025_08_26.
        turn.tools = [*turn.tools, *(tool for tool in own if not any(kind.startswith(tool["type"]) for kind in kinds))]
    if turn.unknown_keys and tool_host.defers_tools(turn.tools):
        turn.unknown_keys = list_other_keys(turn.unknown_keys)


def _unseal_results(turn: Turn, target: Target, tool_host: ToolHost) -> None:
    """Unseals what the model read of the results of earlier calls. Raises StoreUnavailable."""
    if target.reasoning_seal is not None and (types := tool_host.sealed_types):
        turn.items = target.reasoning_seal.unseal_hosted_calls(turn.items, types)


def _find_item_seal(target: Target, *, carries_seals: bool) -> Callable[[Item], Item]:
    """Returns a function that seals items which a compaction retains, in the same way as items for the client."""
    if target.reasoning_seal is None:
        return lambda item: item
    return ReplyItemSeal(target.reasoning_seal, carries_seals).seal_done_item


def _describe_servers(turn: Turn, tool_host: ToolHost) -> None:
    """Adds the descriptions of the request's servers to the instructions of its turn.

    Models know only functions, which have no groups with descriptions.
    """
    texts = [
        f"The tools of the server {tool['server_label']!r}: {tool['server_description']}"
        for tool in turn.tools
        if tool.get("server_description") and tool_host.runs_tool(tool)
    ]
    if texts:
        turn.instructions = "\n\n".join(filter(None, [turn.instructions, *texts]))


def _build_probe_turn(turn: Turn, tool_host: ToolHost) -> Turn:
    """Returns the turn without the tools of servers, to find errors and losses before the servers list their tools."""
    own = tool_host.remove_hosted_tools(turn)
    if tool_host.defers_tools(turn.tools):
        own.tools = remove_deferral(own.tools)
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
