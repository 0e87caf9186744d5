"""Makes the exchanges of responses with hosted tools.

Their modules import the MCP library, which is large, and most processes never call a tool. So these modules are
imported when the first tool is needed.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Final

from gateway.tools.host import ToolHost
from gateway.tools.redacted_results import ResultRedactor
from gateway.tools.requested_servers import RequestedServer
from providers.base import Exchange
from providers.redaction import Redactor
from translation.representation.turn import Turn
from translation.tools.credentials import list_credentials

if TYPE_CHECKING:
    from gateway.tools.approvals import ResponseApprovals
    from gateway.tools.context_compactor import ContextCompactor
    from gateway.tools.loop_exchange import ToolLoopExchange
    from gateway.tools.tool_run import ToolRun

_MODULES: Final = ("gateway.tools.loop_exchange", "gateway.tools.mcp.operator_server")
"""The modules that import the library."""

_loaded: Final = asyncio.Event()


async def load_tool_library() -> None:
    """Imports the modules that run tools, in a thread, so that other requests run meanwhile. Later calls return at
    once."""
    if _loaded.is_set():
        return
    for name in _MODULES:
        await asyncio.to_thread(import_module, name)
    _loaded.set()


def make_loop_exchange(
    host: ToolHost,
    turn: Turn,
    make_round: Callable[[Turn], Exchange],
    *,
    max_tool_calls: int | None,
    in_background: bool,
    sees_images: bool,
    approvals: "ResponseApprovals | None",
    runs_with_client_calls: bool,
    compactor: "ContextCompactor | None" = None,
    tool_run: "ToolRun",
) -> "ToolLoopExchange":
    """Returns the exchange that runs the turn with its hosted tools. `make_round` makes the exchange of one round.

    `max_tool_calls` is the parameter of the request. `in_background`: no client waits for the reply. `approvals` may be
    None if none can be stored. `runs_with_client_calls`: calls are run even if the client has to answer other calls of
    their round. `compactor` is None if the request does not ask for compaction. `tool_run` is read when the exchange is
    opened. Raises InvalidRequest for servers that cannot be used as the request names them.
    """
    from gateway.tools.loop_exchange import ToolLoopExchange  # requests call `load_tool_library` before

    credentials = list_credentials({"tools": list(turn.tools)})
    servers = host.read_servers(turn.tools, Redactor(credentials).redact if credentials else str)
    redactor = ResultRedactor([*credentials, *_list_secrets(host, servers)], lambda: _list_tokens(servers))
    bounds = host.settings.build_bounds(max_tool_calls, in_background=in_background)
    if not runs_with_client_calls:
        bounds = replace(bounds, runs_with_client_calls=False)
    return ToolLoopExchange(
        host.remove_hosted_tools(turn),
        servers,
        make_round,
        host,
        bounds,
        sees_images=sees_images,
        redactor=redactor,
        approvals=approvals,
        compactor=compactor,
        tool_run=tool_run,
    )


def _list_secrets(host: ToolHost, servers: Sequence[RequestedServer]) -> list[str]:
    """Returns the operator's credentials for these servers."""
    if host.operator_servers is None:
        return []
    labels = [requested.label for requested in servers if requested.operator is not None]
    return [secret for label in labels for secret in host.operator_servers.list_secrets(label)]


def _list_tokens(servers: Sequence[RequestedServer]) -> list[str]:
    """Returns the current tokens for the operator's servers among these."""
    sources = [each.server.tokens for each in servers]
    return [token for source in sources if source is not None for token in source.list_secrets()]
