"""One server of the operator's configuration: its connection, which lasts, and the list of its tools."""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, TypeVar

import orjson
import structlog
from mcp_types import CallToolRequestParams, CallToolResult, Tool

from dataplane.sharing.fair_turns import FairTurns, current_owner
from dataplane.sharing.work_pool import run_in_pool
from gateway.tools.executors.executor import OnProgress
from gateway.tools.mcp.connection import call_once, check_structure
from gateway.tools.mcp.elicitation.requests import NO_INPUT, CallInput
from gateway.tools.mcp.errors import McpFault
from gateway.tools.mcp.results import build_tool_item
from gateway.tools.mcp.server import McpServer
from gateway.tools.mcp.session import McpSession, SendRequest
from gateway.tools.mcp.tool_lists import find_unaccepted, list_pages
from providers.egress import EgressClient
from translation.representation.json_types import Json

_log = structlog.get_logger(__name__)

_T = TypeVar("_T")

_MIN_BACKOFF_S: Final = 0.5
_MAX_BACKOFF_S: Final = 60.0
_SHORT_S: Final = 5.0
"""A connection that is lost within this time counts as a failure, so that a server that crashes at once is not started
again and again."""

_FREE_FAILURES: Final = 2
"""The number of failures in a row without a pause after them."""

_MIN_REFRESH_S: Final = 1.0
"""The shortest time between two requests for the list because of reports of the server."""

_MAX_CALLS: Final = 80
"""The most calls at once, of which one owner has three quarters. The HTTP client has 100 connections to a server."""

_OUTPUT_CHARS: Final = 500

_LOST: Final = frozenset({"connection_closed", "session_lost"})
_REMOVED: Final = "the server was removed from the configuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorServerSettings:
    """The operator's settings of one server. Deadlines are in seconds."""

    server: McpServer
    allows: Callable[[str], bool]
    repeats_calls: bool
    is_trusted: bool
    max_list_pages: int
    max_tools: int
    list_deadline_s: float
    call_deadline_s: float
    list_ttl_s: float
    pins: Mapping[str, str] | None = None
    """The digests of the accepted definitions, by the names of tools; None accepts all."""


@dataclass(frozen=True, kw_only=True)
class ToolListing:
    """The tools of a server that may be used, as it listed them at `listed_at` (monotonic). It never changes."""

    tools: Sequence[Tool]
    items: Sequence[Json]
    """The tools in the form of an `mcp_list_tools` item, without credentials."""
    listed_at: float
    left_out: Mapping[str, str] = field(default_factory=dict)
    """The names of unusable tools, each with the reason."""

    @cached_property
    def output_schemas(self) -> Mapping[str, dict[str, Any]]:
        """The output schemas of the tools that have one, by name."""
        return {tool.name: tool.output_schema for tool in self.tools if tool.output_schema is not None}

    def find(self, name: str) -> Tool | None:
        """Returns the tool of this name; None if there is none."""
        return next((tool for tool in self.tools if tool.name == name), None)


class OperatorServer:
    """A server for all responses of this process. It is connected when a request first needs it.

    `check_names` is called with each new list, and raises McpFault for a list that cannot be used. The object may be
    created outside of an event loop, but is used in one loop only.
    """

    def __init__(
        self,
        settings: OperatorServerSettings,
        egress: EgressClient,
        check_names: Callable[[Sequence[Tool]], None] = lambda _: None,
    ) -> None:
        self.settings: Final = settings
        self.listing: ToolListing | None = None
        """The last list that could be used. It can be read at any time, without waiting."""
        self.fault: McpFault | None = None
        """Why the last attempt to reach the server failed; None if it did not."""
        self._egress = egress
        self._check_names = check_names
        self._session: McpSession | None = None
        self._session_began = 0.0
        self._failures = 0
        self._bad_answers = 0
        """The number of answers in a row that did not follow the protocol."""
        self._paused_until = 0.0
        self._has_changed = False
        self._refresh: asyncio.Task[ToolListing] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._calls: set[asyncio.Task[Any]] = set()
        self._turns = FairTurns(_MAX_CALLS, reserves=False, most=_MAX_CALLS * 3 // 4)
        self._is_removed = False
        self._last_output = ""

    @property
    def label(self) -> str:
        return self.settings.server.label

    @property
    def last_output(self) -> str:
        """The end of the standard error of the server's command, without credentials."""
        return self._last_output if self._session is None else self._session.last_output

    # Tools

    @property
    def fresh_listing(self) -> ToolListing | None:
        """The last list, unless it has to be read again; else None."""
        listing = self.listing
        if listing is None or self._is_removed or self._has_changed:
            return None
        return listing if time.monotonic() - listing.listed_at <= self.settings.list_ttl_s else None

    async def list_tools(self, *, must_be_fresh: bool = False) -> ToolListing:
        """Returns the tools. Raises McpFault if the server never listed any.

        The last list is returned while an old list is read again, and if that fails: so tools do not vanish when a
        server is away. After the server reported a change, the new list is waited for. With `must_be_fresh` the list is
        read now, and McpFault is raised if that fails.
        """
        listing, settings = self.listing, self.settings
        if self._is_removed:
            raise McpFault("server_removed", _REMOVED)
        if listing is not None and not (self._has_changed or must_be_fresh):
            if time.monotonic() - listing.listed_at > settings.list_ttl_s:
                self._begin_refresh()
            return listing
        refresh = self._begin_refresh()
        await asyncio.wait({refresh})
        if refresh.cancelled():
            raise McpFault("server_removed", _REMOVED)
        if refresh.exception() is not None and listing is not None and not must_be_fresh:
            return listing
        return refresh.result()

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any],
        schema: dict[str, Any] | None,
        on_progress: OnProgress | None = None,
        call_input: CallInput = NO_INPUT,
    ) -> CallToolResult:
        """Calls a tool. `schema` is its output schema, if it has one. Raises McpFault; InputRequired if the server asks
        for input.

        The call is made a second time only if the first has no known outcome and the operator allows it.
        """
        if self._is_removed:
            raise McpFault("server_removed", _REMOVED)
        task = asyncio.get_running_loop().create_task(
            self._call_tool(call_input.build_params(name, arguments), on_progress)
        )
        self._calls.add(task)
        try:
            await asyncio.wait({task})
            if task.cancelled():
                raise McpFault("server_removed", _REMOVED)
            return check_structure(task.result(), schema)
        finally:
            self._calls.discard(task)
            task.cancel()

    async def _call_tool(self, params: CallToolRequestParams, on_progress: OnProgress | None) -> CallToolResult:
        settings = self.settings

        async def call(client: Any) -> CallToolResult:
            return await call_once(client, params, settings.max_list_pages, on_progress)

        owner, deadline = current_owner.get(), time.monotonic() + settings.call_deadline_s
        if not self._turns.try_enter(owner):
            await self._wait_for_turn(owner, settings.call_deadline_s)
        try:
            try:
                return await self._request(call, max(0.0, deadline - time.monotonic()))
            except McpFault as fault:
                if fault.kind not in _LOST or not self.may_repeat(params.name):
                    raise
                _log.info("mcp_call_repeated", server=self.label, tool=params.name, fault=fault.kind)
            return await self._request(call, max(0.0, deadline - time.monotonic()))
        finally:
            self._turns.leave(owner)

    async def _wait_for_turn(self, owner: str, deadline_s: float) -> None:
        try:
            async with asyncio.timeout(deadline_s):
                await self._turns.enter(owner)
        except TimeoutError:
            message = f"{_MAX_CALLS} other calls of this server, or most of them for this key, ran for {deadline_s:g} s"
            raise McpFault("timeout", message) from None

    def may_repeat(self, name: str) -> bool:
        """Whether the operator allows a second call of this tool if the outcome of the first is unknown."""
        if self.settings.repeats_calls:
            return True
        tool = self.listing.find(name) if self.listing is not None and self.settings.is_trusted else None
        hints = None if tool is None else tool.annotations
        return hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)

    def _begin_refresh(self) -> "asyncio.Task[ToolListing]":
        if self._refresh is None or self._refresh.done():
            self._has_changed = False
            self._refresh = self._start(self._read_list())
        return self._refresh

    async def _read_list(self) -> ToolListing:
        settings = self.settings
        try:
            pages = await self._request(
                lambda client: list_pages(client, settings.max_list_pages), settings.list_deadline_s
            )
            listed = await pages.check(
                lambda tool: settings.allows(tool.name), settings.server.schema_limits, settings.max_tools
            )
            unaccepted = {} if settings.pins is None else find_unaccepted(listed.tools, settings.pins)
            allowed = [tool for tool in listed.tools if tool.name not in unaccepted]
            for name, reason in unaccepted.items():
                _log.warning("mcp_tool_held_back", server=self.label, tool=name, reason=reason)
            # A list may have megabytes.
            items = await run_in_pool(_scrub_items, allowed, settings.server.scrub)
            self._check_names(allowed)  # nothing is awaited from here on, so no other server takes a name in between
        except McpFault as fault:
            self._report_fault(fault)
            if self.listing is not None:  # the next attempt comes after the time to live
                self.listing = replace(self.listing, listed_at=time.monotonic())
            raise
        self.fault = None
        left_out = {name: settings.server.scrub(reason) for name, reason in (listed.left_out | unaccepted).items()}
        self.listing = ToolListing(tools=tuple(allowed), items=items, left_out=left_out, listed_at=time.monotonic())
        _log.info("mcp_tools_listed", server=self.label, tools=len(allowed), left_out=len(left_out))
        return self.listing

    def discard_list(self, fault: McpFault) -> None:
        """Discards the list, because a server with precedence has a tool of the same name."""
        self.listing = None
        self._report_fault(fault)

    def _report_change(self) -> None:
        """Reads the list again, because the server reported a change. Many reports cause one reading."""
        if not self._has_changed and not self._is_removed:
            self._has_changed = True
            self._start(self._refresh_after_change())

    async def _refresh_after_change(self) -> None:
        if self._refresh is not None and not self._refresh.done():
            await asyncio.wait({self._refresh})  # it may have read the list before the change
        if self.listing is not None:  # a server may report changes all the time
            await asyncio.sleep(max(0.0, self.listing.listed_at + _MIN_REFRESH_S - time.monotonic()))
        if self._has_changed:
            await asyncio.wait({self._begin_refresh()})

    # The connection

    async def _request(self, send: SendRequest[_T], deadline_s: float) -> _T:
        session = await self._require_session()
        try:
            result = await session.request(send, deadline_s)
        except McpFault as fault:
            is_short = fault.kind in _LOST and time.monotonic() - self._session_began < _SHORT_S
            if is_short:
                self._count_failure()
            elif fault.kind == "invalid_result":
                self._bad_answers += 1
                self._pause_after(self._bad_answers)
            raise
        self._bad_answers = 0
        if time.monotonic() - self._session_began > _SHORT_S:
            self._failures = 0
        return result

    async def _require_session(self) -> McpSession:
        """Returns a session that can be used. Raises McpFault if there is none, and during a pause after failures."""
        session = self._session
        is_usable = session is not None and session.is_usable
        pause = self._paused_until - time.monotonic()
        if pause > 0 and (self._bad_answers > _FREE_FAILURES or not is_usable):
            reason = self.fault or "it ended several times soon after its start"
            if self._bad_answers > _FREE_FAILURES:
                reason = f"its last {self._bad_answers} answers did not follow the protocol"
            raise McpFault("connection_closed", f"{reason}; the next attempt is in {pause:.0f} s")
        if session is None or not is_usable:
            if session is not None:
                self._start(session.close())
            # In a context of its own, because it outlives the first request, whose id would be in its log lines.
            session = self._session = Context().run(McpSession, self.settings.server, self._egress, self._report_change)
            self._session_began = time.monotonic()
        try:
            await session.wait_until_open()
        except McpFault as fault:
            if self._session is session:  # the first waiting request
                self._session, self._last_output = None, session.last_output
                self._count_failure()
            self._report_fault(fault)
            raise
        return session

    def _count_failure(self) -> None:
        self._failures += 1
        self._pause_after(self._failures)

    def _pause_after(self, failures: int) -> None:
        if (excess := failures - _FREE_FAILURES) > 0:
            longest = min(_MAX_BACKOFF_S, _MIN_BACKOFF_S * 2**excess)
            self._paused_until = time.monotonic() + longest * random.uniform(0.5, 1.0)

    def _report_fault(self, fault: McpFault) -> None:
        self.fault = fault
        output = {"output": self.last_output.strip()[-_OUTPUT_CHARS:]} if self.last_output.strip() else {}
        _log.warning("mcp_server_failed", server=self.label, fault=fault.kind, **output)

    # The end

    async def remove(self, grace_s: float) -> None:
        """Ends the connection. Running calls may take `grace_s` further seconds, and no new calls are accepted."""
        self._is_removed = True
        if self._calls:
            await asyncio.wait(self._calls, timeout=grace_s)
        tasks = self._calls | self._tasks
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        tokens = self.settings.server.tokens
        closing = [] if self._session is None else [self._session.close()]
        await asyncio.gather(*closing, *([] if tokens is None else [tokens.aclose()]))

    def _start(self, work: Coroutine[Any, Any, _T]) -> "asyncio.Task[_T]":
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._end_task)
        return task

    def _end_task(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # it is reported where it occurs


def _scrub_items(tools: Sequence[Tool], scrub: Callable[[str], str]) -> Sequence[Json]:
    items: list[Json] = orjson.loads(scrub(orjson.dumps([build_tool_item(tool) for tool in tools]).decode()))
    return items
