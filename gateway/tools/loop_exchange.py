"""The exchange of a response with hosted tools: asks the model, runs the calls it makes, and asks it again."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import structlog

from dataplane.source import Source
from dataplane.stepped_source import SteppedSource
from gateway.errors import ToolListFailed
from gateway.mcp.errors import McpFault
from gateway.tools.approvals import ResponseApprovals
from gateway.tools.call_runner import CallRunner
from gateway.tools.context_compactor import ContextCompactor
from gateway.tools.host import RequestedServer, ToolHost, forces_server
from gateway.tools.loop_clock import LoopClock
from gateway.tools.redacted_results import ResultRedactor
from gateway.tools.response_servers import ListedTools, ResponseServers, read_input_rules
from gateway.tools.rounds import round_source
from gateway.tools.tool_run import ToolRun
from providers.base import Batch, Exchange
from providers.new_id import new_id
from translation.errors import InvalidRequest, ProtocolViolation
from translation.hosted.approvals import NO_ANSWERS
from translation.hosted.bounds import LoopBounds
from translation.hosted.compaction import split_hosted_context
from translation.hosted.history import ResolvedHistory, resolve_history
from translation.hosted.loop import ToolLoop
from translation.hosted.result_reader import READ_RESULT, ResultReader
from translation.hosted.tools import ToolCatalogue
from translation.representation.events import Event, ItemEnded
from translation.representation.json_types import Item
from translation.representation.loss import Loss
from translation.representation.turn import Turn

_log = structlog.get_logger(__name__)


class _FirstRound(NamedTuple):
    """The loop before its first round, the events that begin the reply, and the round itself, which is not open."""

    loop: ToolLoop
    events: list[Event]
    turn: Turn
    exchange: Exchange


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
        self._response_servers = ResponseServers(
            servers,
            host,
            redactor,
            partial(read_input_rules, host, tool_run, approvals),
            takes_approvals=approvals is not None,
            sees_images=sees_images,
        )
        self._first_round: _FirstRound | None = None
        """The first round, if it was prepared before the exchange was opened."""
        self._reader = ResultReader(bounds.result_chars)
        self._clock = LoopClock(bounds.seconds)
        parallel_calls = 1 if turn.parallel_tool_calls is False else host.settings.parallel_calls
        self._runner = CallRunner(
            tool_run,
            self._response_servers.find_executor,
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
        try:
            loop, opening = await self._begin()
            if opening:
                yield opening
            if self._runner.has_work(loop):
                async with aclosing(self._runner.run_calls(loop, are_recorded=loop.is_resumed)) as batches:
                    async for batch in batches:
                        yield batch
                if events := await self._store_requests(loop):
                    yield events
            while (turn := self._next_turn(loop)) is not None:
                if loop.round_number > 1:  # the first one is what the line of the whole request is about
                    _log.info("tool_request_started", round=loop.round_number)
                if (reports := self._tool_run.events) is not None:
                    yield [*loop.start(), reports.start_request(loop.round_number)]
                if self._compactor is not None:
                    turn, compacted = await self._compact(self._compactor, loop, turn)
                    if compacted:
                        yield compacted
                yield round_source(loop, self._take_exchange(turn))
                if not loop.has_ended_round:
                    raise ProtocolViolation("the upstream's reply ended without a terminal event")
                if events := await self._store_requests(loop):
                    yield events
                if self._runner.has_work(loop):
                    async with aclosing(self._runner.run_calls(loop)) as batches:
                        async for batch in batches:
                            yield batch
                    if events := await self._store_requests(loop):
                        yield events
            yield loop.end_events()
        finally:
            try:
                await self._response_servers.close()
            finally:
                if self._tool_run.journal is not None:
                    await self._tool_run.journal.close()

    async def find_first_turn(self) -> tuple[Turn | None, Sequence[str]]:
        """Returns the turn that the model would get first, and the labels of the servers that could not be listed. The
        turn is None if a call is run before. Only lists of tools are read.

        It is called instead of opening the exchange, and raises what that raises.
        """
        try:
            loop, events = await self._list_tools()
        finally:
            await self._response_servers.close()
        items = [event.item for event in events if isinstance(event, ItemEnded) and event.item is not None]
        missing = [item["server_label"] for item in items if item.get("error") and not item["tools"]]
        return None if self._approved_labels else loop.next_turn(), missing

    def _next_turn(self, loop: ToolLoop) -> Turn | None:
        if (first := self._first_round) is not None and loop.round_number == 1 and not loop.has_ended_round:
            return first.turn
        if self._clock.seconds_left <= 0:
            loop.end_time()
        return loop.next_turn()

    def _take_exchange(self, turn: Turn) -> Exchange:
        """Returns the exchange of a round. That of the first one may be there already."""
        first, self._first_round = self._first_round, None
        return first.exchange if first is not None and first.turn is turn else self._make_round(turn)

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
        if self._tool_run.is_resumed:
            self._first_round = None
        first = self._first_round
        if self._approvals is None:
            return (first.loop, first.events) if first is not None else await self._list_tools()
        try:
            await self._approvals.confirm()
            loop, events = (first.loop, first.events) if first is not None else await self._list_tools()
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

    def prepare_first_round(self, prepare: Callable[[Turn], tuple[Exchange, Sequence[Loss]]]) -> Sequence[Loss] | None:
        """Prepares the first round now, if no server has to be asked for its tools before. Returns its losses.

        Returns None if the round cannot be known yet. It is then prepared when the exchange is opened, as it is if the
        response turns out to have begun in another process. Raises InvalidRequest, and what `prepare` raises.
        """
        if self._answers is not NO_ANSWERS and (self._answers.approved or self._answers.inputs):
            return None
        past, missing = self._find_missing_lists()
        known = [self._response_servers.find_known_tools(each) for each in missing]
        results = [listed for listed in known if listed is not None]
        if len(results) < len(missing):
            return None
        loop, events = self._start_loop(past.listed, missing, results)
        if (turn := loop.next_turn()) is None:
            return None
        exchange, losses = prepare(turn)
        self._first_round = _FirstRound(loop, events, turn, exchange)
        return losses

    async def _list_tools(self) -> tuple[ToolLoop, list[Event]]:
        """Lists the tools of the servers, all at once. Returns the loop and the events that show the lists.

        Raises ToolListFailed if no server can be listed, or one that is needed: the tool choice names it, or a call of
        it is approved.
        """
        past, missing = self._find_missing_lists()
        results: Sequence[ListedTools | BaseException] = ()
        if missing:
            results = await asyncio.gather(*map(self._list_server, missing), return_exceptions=True)
        return self._start_loop(past.listed, missing, results)

    def _find_missing_lists(self) -> tuple[ResolvedHistory, list[RequestedServer]]:
        """Returns the input as it is without names of tools, and the servers whose lists are missing in it.

        A list that the input already has is not pulled again, unless a call of the server is approved: the tool may
        have changed. That of an operator's server is what the gateway itself knows of it.
        """
        past = resolve_history(
            self._turn.items,
            lambda key: key.name,
            approved_ids=self._answers.approved,
            continued_ids=self._answers.inputs,
        )
        self._approved_labels = {call.key.server for call in past.approved}
        interruption = self._tool_run.interruption
        context_items = () if interruption is None else interruption.context_items
        # What was listed before an interruption stays as it is until the end of the response.
        kept = {item["server_label"] for item in context_items if item["type"] == "mcp_list_tools"}
        missing = [
            each
            for each in self._servers
            if each.label not in kept
            and (each.operator is not None or each.label not in past.listed or each.label in self._approved_labels)
        ]
        for each in self._servers:
            if each.label in kept:
                self._response_servers.keep_listing(each)
        return past, missing

    def _start_loop(
        self,
        listed_before: Mapping[str, Item],
        missing: Sequence[RequestedServer],
        results: Sequence[ListedTools | BaseException],
    ) -> tuple[ToolLoop, list[Event]]:
        """Returns the loop with these lists, and the events that show them: only those that are new. Raises
        ToolListFailed."""
        listed, shown = self._judge_lists(listed_before, missing, results)
        loop = self._build_loop(listed)
        events: list[Event] = []
        if self._tool_run.interruption is not None:
            events = loop.resume(self._tool_run.interruption)
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
        results: Sequence[ListedTools | BaseException],
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

    async def _list_server(self, requested: RequestedServer) -> ListedTools:
        """Returns the tools of a server that the request may use. Raises McpFault."""
        self._tool_run.require_credentials(requested.label)
        must_be_fresh = requested.label in self._approved_labels
        return await self._response_servers.list_tools(requested, must_be_fresh=must_be_fresh)

    def _require_dispensable(self, requested: RequestedServer, fault: McpFault, *, is_needed: bool) -> None:
        """Raises ToolListFailed if the request makes no sense without this server: it `is_needed`, or forced."""
        choice = self._turn.tool_choice
        is_forced = isinstance(choice, dict) and forces_server(choice, requested.label)
        if is_needed or is_forced:
            label, reason = requested.label, self._redactor.redact(str(fault))
            raise ToolListFailed(f"Error retrieving tool list from MCP server: '{label}': {reason}", param="tools")

    def _build_catalogue(self, listed: Mapping[str, Item]) -> ToolCatalogue:
        taken = [tool["name"] for tool in self._turn.tools if tool.get("name")]

        def build() -> ToolCatalogue:
            lists = [(each, listed.get(each.label) or {"tools": []}) for each in self._servers]
            tools = [tool for each, item in lists for tool in each.build_tools(item["tools"])]
            if len(tools) > self._host.settings.max_tools:
                raise InvalidRequest(
                    f"the MCP servers have {len(tools)} tools; at most {self._host.settings.max_tools} are allowed "
                    "(tools.mcp.max_tools): send allowed_tools",
                    param="tools",
                    code="too_many_tools",
                )
            return ToolCatalogue.build(tools, taken, own_tools=[READ_RESULT])

        return self._host.catalogues.find(self._servers, listed, taken, build)
