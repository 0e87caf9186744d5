"""Makes the exchanges of responses with hosted tools.

Their modules import the MCP library, which is large, and most processes never call a tool. So these modules are
imported when the first tool is needed.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Final

from gateway.tools.executors.kind import ResponseContext
from gateway.tools.executors.wrappers import RedactedExecutor
from gateway.tools.host import ToolHost
from gateway.tools.redacted_results import ResultRedactor
from providers.base import Exchange
from providers.redaction import Redactor
from translation.hosted.approvals import NO_ANSWERS
from translation.representation.turn import Turn

if TYPE_CHECKING:
    from gateway.tools.approvals import ResponseApprovals
    from gateway.tools.loop_exchange import ToolLoopExchange
    from gateway.tools.loop_io import ContextCompactor, LoopIO

_MODULES: Final = (
    "gateway.tools.loop_exchange",
    "gateway.tools.mcp.operator_server",
    "gateway.tools.mcp_tools.executors",
)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopOptions:
    """What a request and its route say about its loop of tools."""

    max_tool_calls: int | None = None
    """The parameter of the request."""
    in_background: bool = False
    """Whether no client waits for the reply."""
    sees_images: bool = False
    """Whether the model sees images in results."""
    trained_tools: Collection[str] = ()
    """The hosted tools that the model knows from its training."""
    runs_with_client_calls: bool = True
    """Whether calls are run although the client has to answer other calls of their round."""


def make_loop_exchange(
    host: ToolHost,
    turn: Turn,
    make_round: Callable[[Turn], Exchange],
    options: LoopOptions,
    *,
    approvals: "ResponseApprovals | None",
    compactor: "ContextCompactor | None" = None,
    loop_io: "LoopIO",
) -> "ToolLoopExchange":
    """Returns the exchange that runs the turn with its hosted tools. `make_round` makes the exchange of one round.

    `approvals` may be None if none can be stored. `compactor` is None if the request does not ask for compaction.
    `loop_io` is read when the exchange is opened. Raises InvalidRequest for tools that cannot be run as the request
    names them.
    """
    # Requests call `load_tool_library` before.
    from gateway.tools.call_runner import CallRunner, LoopClock
    from gateway.tools.loop_builder import LoopBuilder
    from gateway.tools.loop_exchange import ToolLoopExchange

    credentials = turn.credentials
    answers = NO_ANSWERS if approvals is None else approvals.answers
    context = ResponseContext(
        scrub=Redactor(credentials).redact if credentials else str,
        can_ask=approvals is not None,
        takes_input=lambda: loop_io.takes_input or bool(answers.inputs),
        sees_images=options.sees_images,
        trained_tools=options.trained_tools,
        citations=loop_io.citations,
        deferred=loop_io.deferred,
    )
    unredacted = host.open_executors(turn.tools, context)
    redactor = ResultRedactor(credentials, lambda: [secret for each in unredacted for secret in each.list_secrets()])
    executors = {each.source.label: RedactedExecutor(each, redactor) for each in unredacted}
    bounds = host.settings.build_bounds(options.max_tool_calls, in_background=options.in_background)
    bounds = replace(bounds, runs_with_client_calls=options.runs_with_client_calls)
    builder = LoopBuilder(
        host.remove_hosted_tools(turn), [*executors.values()], host, bounds, answers, loop_io, redactor=redactor
    )
    runner = CallRunner(
        loop_io,
        executors,
        builder.reader,
        bounds,
        LoopClock(bounds.seconds),
        redactor,
        parallel_calls=1 if turn.parallel_tool_calls is False else host.settings.parallel_calls,
    )
    return ToolLoopExchange(
        builder,
        runner,
        executors.values(),
        make_round,
        approvals=approvals,
        compactor=compactor,
        loop_io=loop_io,
    )
