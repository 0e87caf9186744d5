"""The exchange of a response with hosted tools: asks the model, runs the calls it makes, and asks it again."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from functools import cached_property
from typing import Final

import structlog

from dataplane.source import Source
from dataplane.stepped_source import SteppedSource
from gateway.errors import ToolListFailed
from gateway.mcp.connection import McpConnection
from gateway.mcp.elicitation.requests import InputRules
from gateway.mcp.errors import McpFault
from gateway.mcp.operator_server import OperatorServer, ToolListing
from gateway.mcp.results import is_read_only, item_of_tool
from gateway.mcp.tool_lists import describe_left_out
from gateway.tools.approvals import ResponseApprovals
from gateway.tools.call_runner import CallRunner
from gateway.tools.context_compactor import ContextCompactor
from gateway.tools.executors import McpExecutor, OperatorExecutor, ToolExecutor
from gateway.tools.host import RequestedServer, ToolHost, forces_server
from gateway.tools.loop_clock import LoopClock
from gateway.tools.redacted_results import ResultRedactor
from gateway.tools.rounds import round_source
from gateway.tools.tool_run import ToolRun
from providers.base import Batch, Exchange
from providers.new_id import new_id
from translation.errors import InvalidRequest, ProtocolViolation
from translation.hosted.approvals import NO_ANSWERS
from translation.hosted.bounds import LoopBounds
from translation.hosted.compaction import split_hosted_context
from translation.hosted.history import resolve_history
from translation.hosted.loop import ToolLoop
from translation.hosted.result_reader import READ_RESULT, ResultReader
from translation.hosted.tools import ToolCatalogue
from translation.representation.events import Event
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.turn import Turn

_log = structlog.get_logger(__name__)

_NO_STORE: Final = "its calls need an approval, which cannot be given here"


class ToolLoopExchange(SteppedSource[Batch]):
    """One response with any number of rounds. Its events are in the client's terms.

    `turn` has the client's own tools. `make_round` makes the exchange of one round, whose tools are all functions.
    """

    def __init__(
        self,
        turn: Turn,
        servers: Sequence[RequestedServer],
        make_round: Callable[[Turn], Exchange],
        host: ToolHost,
        bounds: LoopBounds,
        *,
        sees_images: bool,
        redactor: ResultRedactor,
        approvals: ResponseApprovals | None = None,
        compactor: ContextCompactor | None = None,
        tool_run: ToolRun,
    ) -> None:
        super().__init__(self._steps_of_reply(), ())
        self.losses: Final[Sequence[Loss]] = ()
        self._turn = turn
        self._servers = servers
        self._make_round = make_round
        self._host = host
        self._bounds = bounds
        self._sees_images = sees_images
        self._redactor = redactor
        self._approvals = approvals
        self._compactor = compactor
        self._lists: dict[str, Item] = {}
        """The lists of tools, by the labels of their servers."""
        self._open_ids: frozenset[str] = frozenset()
        """The `call_id`s of the calls in the input whose approval can still be given."""
        self._answers = NO_ANSWERS if approvals is None else approvals.answers
        self._changed_ids: Sequence[str] = ()
        """The approvals that do not count, because their tool is another one now."""
        self._approved_labels: Collection[str] = ()
        """The servers of the approved calls. Their lists are read again, because the tools may have changed."""
        self._tool_run = tool_run
        self._connections: dict[str, McpConnection] = {}
        self._executors: dict[str, ToolExecutor] = {}
        """What runs the calls of each server, by its label."""
        self._reader = ResultReader(bounds.result_chars)
        self._clock = LoopClock(bounds.seconds)
        parallel_calls = 1 if turn.parallel_tool_calls is False else host.settings.parallel_calls
        self._runner = CallRunner(
            tool_run,
            self._executors,
            self._reader,
            bounds,
            self._clock,
            redactor,
            parallel_calls=parallel_calls,
        )

    def batches(self) -> AsyncGenerator[Batch, None]:
        return self.iterate()

    async def _steps_of_reply(self) -> AsyncGenerator[Batch | Source[Batch], None]:
        """Yields batches, and the sources of the rounds, which are read to their end before the next step."""
        self._clock.start()
        async with AsyncExitStack() as stack:
            if self._tool_run.journal is not None:
                stack.push_async_callback(self._tool_run.journal.close)
            await self._connect(stack)
            loop, opening = await self._begin()
            if opening:
                yield opening
            async with aclosing(self._runner.run_calls(loop, are_recorded=loop.is_resumed)) as batches:
                async for batch in batches:
                    yield batch
            if events := await self._store_requests(loop):
                yield events
            while (turn := self._next_turn(loop)) is not None:
                _log.info("tool_request_started", round=loop.round_number)
                if (reports := self._tool_run.events) is not None:
                    yield [*loop.start(), reports.start_request(loop.round_number)]
                if self._compactor is not None:
                    turn, compacted = await self._compact(self._compactor, loop, turn)
                    if compacted:
                        yield compacted
                yield round_source(loop, self._make_round(turn))
                if not loop.has_ended_round:
                    raise ProtocolViolation("the upstream's reply ended without a terminal event")
                if events := await self._store_requests(loop):
                    yield events
                async with aclosing(self._runner.run_calls(loop)) as batches:
                    async for batch in batches:
                        yield batch
                if events := await self._store_requests(loop):
                    yield events
            yield loop.end_events()

    async def find_first_turn(self) -> Turn | None:
        """Returns the turn that the model would get first; None if a call is run before. Only lists of tools are read.

        It is called instead of opening the exchange, and raises what that raises.
        """
        async with AsyncExitStack() as stack:
            await self._connect(stack)
            loop, _ = await self._list_tools()
        return None if self._approved_labels else loop.next_turn()

    async def _connect(self, stack: AsyncExitStack) -> None:
        """Adds the connections of the servers whose URLs the request gives, which `stack` closes."""
        for requested in (each for each in self._servers if each.operator is None):
            connection = McpConnection(requested.server, self._host.egress)
            self._connections[requested.label] = await stack.enter_async_context(connection)
            self._executors[requested.label] = McpExecutor(
                connection,
                self._input_rules,
                deadline_s=self._host.settings.call_deadline_s,
                max_pages=self._host.settings.max_list_pages,
                sees_images=self._sees_images,
            )

    @cached_property
    def _input_rules(self) -> InputRules:
        """What calls may ask for. Read when the exchange is open, since `tool_run` is complete then.

        A client that answers one call can answer others.
        """
        settings = self._host.settings
        takes_input = self._tool_run.takes_input or bool(self._answers.inputs)
        return InputRules(
            takes_input=takes_input and self._approvals is not None,
            max_rounds=settings.input_rounds,
            max_bytes=int(settings.max_input_kb * 1024),
            schema_limits=settings.schema_limits,
        )

    def _next_turn(self, loop: ToolLoop) -> Turn | None:
        if self._clock.seconds_left <= 0:
            loop.end_time()
        return loop.next_turn()

    async def _compact(self, compactor: ContextCompactor, loop: ToolLoop, turn: Turn) -> tuple[Turn, list[Event]]:
        """Returns the turn of the next round, with a summary in place of older items if that is due, and the events
        that show it."""
        parts = split_hosted_context(turn.items, loop.sources, self._open_ids, self._lists.values(), awaits_answer=True)
        summary = await compactor.compact(turn, parts, loop.round_usage)
        if summary is None:
            return turn, []
        events = loop.replace_context(summary.item, summary.items, summary.usage)
        return replace(turn, items=summary.items), events

    async def _begin(self) -> tuple[ToolLoop, list[Event]]:
        """Returns the loop, and the events before its first call: the lists of tools, and the calls that are approved.

        If it fails, none of these was sent, and their approvals can be used again, unless another process goes on.
        """
        if self._approvals is None:
            return await self._list_tools()
        try:
            await self._approvals.confirm()
            loop, events = await self._list_tools()
            events += loop.start_approved_calls()
            events += await self._store_requests(loop)
            await self._approvals.void(self._changed_ids)
        except BaseException as error:
            if not self._tool_run.goes_on_after(error):
                await self._approvals.reopen()
            raise
        return loop, events

    async def _store_requests(self, loop: ToolLoop) -> list[Event]:
        """Stores the approvals and the input that the reply asks for. Returns the events by which it does."""
        if not (requests := loop.approval_requests):
            return []
        assert self._approvals is not None  # without it no tool needs one
        await self._approvals.store_requests(requests)
        return loop.send_approval_requests()

    async def _list_tools(self) -> tuple[ToolLoop, list[Event]]:
        """Lists the tools of the servers, all at once. Returns the loop and the events that show the lists.

        A list that the input already has is not pulled again, unless a call of the server is approved: the tool may
        have changed. That of an operator's server is what the gateway itself knows of it. A list is shown again only if
        it is another one. Raises ToolListFailed if no server can be listed, or one that is needed: the tool choice
        names it, or a call of it is approved.
        """
        interruption = self._tool_run.interruption
        context_items = () if interruption is None else interruption.context_items
        past = resolve_history(
            self._turn.items,
            lambda key: key.name,
            approved_ids=self._answers.approved,
            continued_ids=self._answers.inputs,
        )
        self._approved_labels = {call.key.server for call in past.approved}
        # What was listed before an interruption stays as it is until the end of the response.
        kept = {item["server_label"] for item in context_items if item["type"] == "mcp_list_tools"}
        missing = [
            each
            for each in self._servers
            if each.label not in kept
            and (each.operator is not None or each.label not in past.listed or each.label in self._approved_labels)
        ]
        for each in self._servers:
            if each.label in kept and each.operator is not None:
                self._add_executor(each.label, each.operator, each.operator.listing)
        results = await asyncio.gather(*map(self._list_server, missing), return_exceptions=True)
        listed, shown = self._judge_lists(past.listed, missing, results)
        loop = self._build_loop(listed)
        events: list[Event] = []
        if interruption is not None:
            events = loop.resume(interruption)
        elif shown:
            events = loop.start()
        for item in shown:
            started = {name: value for name, value in item.items() if name != "error"} | {"tools": []}
            phase = "completed" if item["server_label"] in listed else "failed"
            events += loop.show_item(item, started=started, phases=("in_progress", phase))
        return loop, events

    def _judge_lists(
        self,
        listed_before: Mapping[str, Item],
        missing: Sequence[RequestedServer],
        results: Sequence[tuple[list[Json], str | None] | BaseException],
    ) -> tuple[dict[str, Item], list[Item]]:
        """Returns the lists of tools by the labels of their servers, and the items to show: lists that are new or other
        than before, and faults. `results` are those of the servers in `missing`. Raises ToolListFailed."""
        listed: dict[str, Item] = dict(listed_before)
        shown: list[Item] = []
        faults = [result for result in results if isinstance(result, McpFault)]
        for requested, result in zip(missing, results, strict=True):
            if isinstance(result, BaseException) and not isinstance(result, McpFault):
                raise result
            item: Item = {"id": new_id("mcpl"), "type": "mcp_list_tools", "server_label": requested.label}
            if isinstance(result, McpFault):
                is_last = len(faults) == len(self._servers) and not requested.is_added
                is_needed = is_last or requested.label in self._approved_labels
                self._require_dispensable(requested, result, is_needed=is_needed)
                item |= {"tools": [], "error": self._redactor.redact(str(result))}
                listed.pop(requested.label, None)
            else:
                item["tools"], note = result
                if note is not None:
                    item["error"] = self._redactor.redact(note)
                listed[requested.label] = item
                if item["tools"] == listed_before.get(requested.label, {}).get("tools"):
                    continue
            shown.append(item)
        return listed, shown

    def _build_loop(self, listed: dict[str, Item]) -> ToolLoop:
        """Returns the loop with these lists of tools, over the input of the turn."""
        catalogue = self._build_catalogue(listed)
        history = resolve_history(
            self._turn.items,
            catalogue.name_of,
            approved_ids=self._answers.approved,
            continued_ids=self._answers.inputs,
            standings=self._answers.standings,
            cut=self._reader.cut,
        )
        turn = replace(self._turn, items=self._tool_run.add_media(history.items))
        tools = {call.approval_request_id: catalogue.find(catalogue.name_of(call.key)) for call in history.approved}
        self._changed_ids = self._answers.find_changed(tools)
        self._lists = listed
        self._open_ids = history.open_ids.difference(tools)
        return ToolLoop(
            turn,
            catalogue,
            history.approved,
            self._bounds,
            new_id,
            changed_ids=self._changed_ids,
            inputs=self._answers.inputs,
            reader=self._reader,
            sources=history.sources,
        )

    async def _list_server(self, requested: RequestedServer) -> tuple[list[Json], str | None]:
        """Returns the tools of a server that the request may use, as in an `mcp_list_tools` item, and a text about any
        that cannot be used. Raises McpFault."""
        self._tool_run.require_credentials(requested.label)
        left_out: Mapping[str, str]
        if requested.operator is not None:
            listing = await requested.operator.list_tools(must_be_fresh=requested.label in self._approved_labels)
            self._add_executor(requested.label, requested.operator, listing)
            left_out = listing.left_out
            items = [
                item
                for item in listing.items
                if requested.allows(item["name"], is_read_only=item["annotations"]["read_only"])
            ]
        else:
            settings = self._host.settings
            pages = await self._connections[requested.label].list_tools(
                max_pages=settings.max_list_pages, deadline_s=settings.list_deadline_s
            )
            listed = await pages.check(
                lambda tool: requested.allows(tool.name, is_read_only=is_read_only(tool)),
                requested.server.schema_limits,
                settings.max_tools,
            )
            left_out = listed.left_out
            items = await self._redactor.redact_json([item_of_tool(tool) for tool in listed.tools])
        if self._approvals is None:
            left_out = {**left_out, **{item["name"]: _NO_STORE for item in items if self._asks(requested, item)}}
            items = [item for item in items if not self._asks(requested, item)]
        # Whether a tool that is left out would be read-only is not known.
        missed = {
            name: reason
            for name, reason in left_out.items()
            if any(requested.allows(name, is_read_only=each) for each in (True, False))
        }
        return items, describe_left_out(missed)

    def _add_executor(self, label: str, server: OperatorServer, listing: ToolListing | None) -> None:
        """Adds what runs the calls of an operator's server. The response goes on with this list until its end."""
        schemas = {} if listing is None else listing.output_schemas
        self._executors[label] = OperatorExecutor(server, schemas, self._input_rules, sees_images=self._sees_images)

    def _asks(self, requested: RequestedServer, item: Json) -> bool:
        """Whether a call of a listed tool needs an approval."""
        return requested.needs_approval(item["name"], is_read_only=item["annotations"]["read_only"])

    def _require_dispensable(self, requested: RequestedServer, fault: McpFault, *, is_needed: bool) -> None:
        """Raises ToolListFailed if the request makes no sense without this server: it `is_needed`, or forced."""
        choice = self._turn.tool_choice
        is_forced = isinstance(choice, dict) and forces_server(choice, requested.label)
        if is_needed or is_forced:
            label, reason = requested.label, self._redactor.redact(str(fault))
            raise ToolListFailed(f"Error retrieving tool list from MCP server: '{label}': {reason}", param="tools")

    def _build_catalogue(self, listed: Mapping[str, Item]) -> ToolCatalogue:
        tools = [
            tool
            for requested in self._servers
            for tool in requested.build_tools((listed.get(requested.label) or {"tools": []})["tools"])
        ]
        if len(tools) > self._host.settings.max_tools:
            raise InvalidRequest(
                f"the MCP servers have {len(tools)} tools; at most {self._host.settings.max_tools} are allowed "
                "(tools.mcp.max_tools): send allowed_tools",
                param="tools",
                code="too_many_tools",
            )
        taken = [tool["name"] for tool in self._turn.tools if tool.get("name")]
        return ToolCatalogue.build(tools, taken, own_tools=[READ_RESULT])
