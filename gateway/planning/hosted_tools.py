"""Prepares turns with tools that the gateway runs: several rounds of the model and of tools are one reply."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from gateway.planning.managed_context import asks_for_truncation, make_truncating_exchange, needs_compaction
from gateway.planning.prepare_turn import exchange_factory, prepare_exchange
from gateway.planning.resolver import Route
from gateway.tools.approvals import ResponseApprovals
from gateway.tools.host import ToolHost
from gateway.tools.tool_run import ToolRun
from providers.base import Dialect, Exchange
from translation.errors import Unrepresentable
from translation.hosted.history import resolve_history
from translation.hosted.tools import model_name_of
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.turn import Turn


class HostedExchange(NamedTuple):
    """An exchange whose events are in the client's terms (see `MappedExchange`), and its losses known in advance."""

    exchange: Exchange
    losses: Sequence[Loss]
    tool_run: ToolRun


def prepare_hosted_exchange(
    turn: Turn,
    body: Json,
    route: Route,
    tool_host: ToolHost,
    report_loss: Callable[[Loss], None],
    approvals: ResponseApprovals | None = None,
    dialect: Dialect = "responses",
    *,
    in_background: bool = False,
) -> HostedExchange:
    """Returns the exchange that runs the hosted tools of a turn. With `truncation: auto` each round may be truncated.

    `dialect` is the client's API. `in_background` is whether nobody waits for the reply. `approvals` may be None if no
    call can need one. `report_loss` is called with losses that occur while the exchange runs. Raises InvalidRequest;
    Unrepresentable if the upstream has no tools, or the request asks for compaction.
    """
    if not route.capabilities.tools:
        what_to_do = "leave out tools" if body.get("tools") else "the operator has to take tools.mcp from the model"
        raise Unrepresentable(f"the model's upstream does not support tools; {what_to_do}", param="tools")
    if dialect == "responses" and needs_compaction(body):
        raise Unrepresentable(
            "the gateway does not compact a context while it runs tools: leave context_management out, or the tools",
            param="context_management",
        )
    _describe_servers(turn, tool_host)
    if route.mcp_servers:
        turn.tools = [*turn.tools, *tool_host.servers_of_model(turn.tools, route.mcp_servers)]
    make_round = exchange_factory(route, dialect)
    if dialect == "responses" and asks_for_truncation(body):
        make_round = partial(make_truncating_exchange, make_round, report_loss)
    tool_run = ToolRun()
    exchange = tool_host.make_exchange(
        turn,
        make_round,
        max_tool_calls=body.get("max_tool_calls") if dialect == "responses" else None,
        in_background=in_background,
        sees_images=route.capabilities.images,
        approvals=approvals,
        # Chat has no items for hosted calls, so that a client cannot send them back with the outputs of its own calls.
        runs_with_client_calls=dialect == "responses",
        tool_run=tool_run,
    )
    turn.losses = [loss for loss in turn.losses if loss.param != "max_tool_calls"]
    _, _, losses = prepare_exchange(_build_probe_turn(turn, tool_host), route, dialect)
    return HostedExchange(exchange, losses, tool_run)


def _describe_servers(turn: Turn, tool_host: ToolHost) -> None:
    """Adds what a request says of its servers to the instructions of its turn, and what is lost of them to its losses.

    The models know functions, which have no group that could carry a description.
    """
    texts: list[str] = []
    losses: list[Loss] = []
    for position, tool in enumerate(turn.tools):
        if not tool_host.runs(tool):
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
    """Returns the turn as far as it is known before the servers have listed their tools. It shows errors and losses."""
    own = tool_host.without_hosted(turn)
    choice = own.tool_choice if own.tools and not _names_hosted(own.tool_choice) else None
    return replace(own, items=resolve_history(own.items, model_name_of).items, tool_choice=choice)


def _names_hosted(choice: str | Json | None) -> bool:
    if not isinstance(choice, dict):
        return choice == "required"
    return choice["type"] == "mcp" or any(tool.get("type") == "mcp" for tool in choice.get("tools") or ())
