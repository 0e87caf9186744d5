"""Lists the tools of the servers of a response, and builds its loop with them."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from gateway.errors import ToolListFailed
from gateway.tools.host import ToolHost
from gateway.tools.mcp.errors import McpFault
from gateway.tools.redacted_results import ResultRedactor
from gateway.tools.requested_servers import RequestedServer, forces_server
from gateway.tools.response_servers import ListedTools, ResponseServers
from gateway.tools.tool_run import ToolRun
from providers.new_id import new_id
from translation.errors import InvalidRequest
from translation.hosted.approvals import ApprovalAnswers
from translation.hosted.bounds import LoopBounds
from translation.hosted.loop.tool_loop import ToolLoop
from translation.hosted.past_hosted_calls import ApprovedCalls, ResolvedHistory, resolve_history
from translation.hosted.result_reader import READ_RESULT, ResultReader
from translation.hosted.tools import ToolCatalogue
from translation.representation.events import Event
from translation.representation.json_types import Item
from translation.representation.turn import Turn


class BuiltLoop(NamedTuple):
    """A loop before its first round, and the events that begin its reply: they show new lists of tools.

    `lists` has the lists of tools by the labels of their servers. `changed_ids` are the approvals that do not count,
    because their tool has changed. `open_ids` are the `call_id`s of the calls in the input whose approval can still be
    given.
    """

    loop: ToolLoop
    events: list[Event]
    lists: Mapping[str, Item]
    changed_ids: Sequence[str]
    open_ids: frozenset[str]


class LoopBuilder:
    """Builds the loop of one response. `turn` has the client's own tools."""

    def __init__(
        self,
        turn: Turn,
        servers: Sequence[RequestedServer],
        response_servers: ResponseServers,
        host: ToolHost,
        bounds: LoopBounds,
        answers: ApprovalAnswers,
        *,
        reader: ResultReader,
        redactor: ResultRedactor,
        tool_run: ToolRun,
    ) -> None:
        self.approved_labels: Collection[str] = ()
        """The servers of the approved calls. Their lists are read again, because the tools may have changed."""
        self._turn: Final = turn
        self._servers: Final = servers
        self._response_servers: Final = response_servers
        self._host: Final = host
        self._bounds: Final = bounds
        self._answers: Final = answers
        self._reader: Final = reader
        self._redactor: Final = redactor
        self._tool_run: Final = tool_run

    async def list_tools(self) -> BuiltLoop:
        """Lists the tools of the servers, all at once, and returns the loop with them.

        Raises ToolListFailed if no server can be listed, or if a server is needed that cannot: the tool choice names
        it, or a call of one of its tools is approved.
        """
        history, missing = self._find_missing_lists()
        results: Sequence[ListedTools | BaseException] = ()
        if missing:
            results = await asyncio.gather(*map(self._list_server, missing), return_exceptions=True)
        return self._build_with_lists(history.listed, missing, results)

    def build_with_known_lists(self) -> BuiltLoop | None:
        """Returns the loop if the gateway knows the tools of all servers; None if a server has to be asked for them."""
        history, missing = self._find_missing_lists()
        known = [self._response_servers.find_known_tools(each) for each in missing]
        results = [listed for listed in known if listed is not None]
        return None if len(results) < len(missing) else self._build_with_lists(history.listed, missing, results)

    def _find_missing_lists(self) -> tuple[ResolvedHistory, list[RequestedServer]]:
        """Returns the input before its tools have names, and the servers whose lists are missing in it.

        A list in the input is not fetched again, unless a call of the server is approved: the tool may have changed.
        The list of an operator's server is always the gateway's own.
        """
        history = resolve_history(
            self._turn.items,
            lambda key: key.name,
            approved_ids=self._answers.approved,
            continued_ids=self._answers.inputs,
        )
        self.approved_labels = {call.key.server for call in history.approved}
        interruption = self._tool_run.interruption
        context_items = () if interruption is None else interruption.context_items
        # Lists from before an interruption stay unchanged until the end of the response.
        pinned = {item["server_label"] for item in context_items if item["type"] == "mcp_list_tools"}
        missing = [
            each
            for each in self._servers
            if each.label not in pinned
            and (each.operator is not None or each.label not in history.listed or each.label in self.approved_labels)
        ]
        for each in self._servers:
            if each.label in pinned:
                self._response_servers.pin_listing(each)
        return history, missing

    def _build_with_lists(
        self,
        listed_before: Mapping[str, Item],
        missing: Sequence[RequestedServer],
        results: Sequence[ListedTools | BaseException],
    ) -> BuiltLoop:
        """Returns the loop with the lists of the input and these results. Raises ToolListFailed."""
        lists, new_items = self._merge_lists(listed_before, missing, results)
        built = self._build_loop(lists)
        loop, events = built.loop, built.events
        if self._tool_run.interruption is not None:
            events += loop.resume(self._tool_run.interruption)
        elif new_items:
            events += loop.start()
        for item in new_items:
            started = {name: value for name, value in item.items() if name != "error"} | {"tools": []}
            phase = "completed" if item["server_label"] in lists else "failed"
            events += loop.emit_item(item, started=started, phases=("in_progress", phase))
        return built

    def _merge_lists(
        self,
        listed_before: Mapping[str, Item],
        missing: Sequence[RequestedServer],
        results: Sequence[ListedTools | BaseException],
    ) -> tuple[dict[str, Item], list[Item]]:
        """Returns the lists of tools by the labels of their servers, and the items to send: new lists, changed lists,
        and faults. `results` belong to the servers in `missing`. Raises ToolListFailed."""
        lists: dict[str, Item] = dict(listed_before)
        new_items: list[Item] = []
        faults = [result for result in results if isinstance(result, McpFault)]
        for requested, result in zip(missing, results, strict=True):
            if isinstance(result, BaseException) and not isinstance(result, McpFault):
                raise result
            item: Item = {"id": new_id("mcpl"), "type": "mcp_list_tools", "server_label": requested.label}
            if isinstance(result, McpFault):
                is_last = len(faults) == len(self._servers) and not requested.is_added
                is_needed = is_last or requested.label in self.approved_labels
                self._require_dispensable(requested, result, is_needed=is_needed)
                item |= {"tools": [], "error": self._redactor.redact(str(result))}
                lists.pop(requested.label, None)
            else:
                item["tools"], note = result
                if note is not None:
                    item["error"] = self._redactor.redact(note)
                lists[requested.label] = item
                if item["tools"] == listed_before.get(requested.label, {}).get("tools"):
                    continue
            new_items.append(item)
        return lists, new_items

    def _build_loop(self, lists: dict[str, Item]) -> BuiltLoop:
        """Returns the loop with these lists of tools, over the input of the turn. It has no events yet."""
        catalogue = self._build_catalogue(lists)
        history = resolve_history(
            self._turn.items,
            catalogue.name_of,
            approved_ids=self._answers.approved,
            continued_ids=self._answers.inputs,
            not_run_reasons=self._answers.not_run_reasons,
            cut=self._reader.cut,
        )
        turn = replace(self._turn, items=self._tool_run.add_media(history.items))
        tools = {call.approval_request_id: catalogue.find(catalogue.name_of(call.key)) for call in history.approved}
        changed_ids = self._answers.find_changed(tools)
        approved = ApprovedCalls(history.approved, changed_ids, self._answers.inputs)
        loop = ToolLoop(turn, catalogue, approved, self._bounds, new_id, reader=self._reader, sources=history.sources)
        return BuiltLoop(loop, [], lists, changed_ids, history.open_ids.difference(tools))

    async def _list_server(self, requested: RequestedServer) -> ListedTools:
        """Returns the tools of a server that the request may use. Raises McpFault."""
        self._tool_run.require_credentials(requested.label)
        must_be_fresh = requested.label in self.approved_labels
        return await self._response_servers.list_tools(requested, must_be_fresh=must_be_fresh)

    def _require_dispensable(self, requested: RequestedServer, fault: McpFault, *, is_needed: bool) -> None:
        """Raises ToolListFailed if the request cannot be served without this server: it `is_needed`, or forced."""
        choice = self._turn.tool_choice
        is_forced = isinstance(choice, dict) and forces_server(choice, requested.label)
        if is_needed or is_forced:
            label, reason = requested.label, self._redactor.redact(str(fault))
            raise ToolListFailed(f"Error retrieving tool list from MCP server: '{label}': {reason}", param="tools")

    def _build_catalogue(self, lists: Mapping[str, Item]) -> ToolCatalogue:
        reserved_names = [tool["name"] for tool in self._turn.tools if tool.get("name")]

        def build() -> ToolCatalogue:
            listed = [(each, lists.get(each.label) or {"tools": []}) for each in self._servers]
            tools = [tool for each, item in listed for tool in each.build_tools(item["tools"])]
            if len(tools) > self._host.settings.max_tools:
                raise InvalidRequest(
                    f"the MCP servers have {len(tools)} tools; at most {self._host.settings.max_tools} are allowed "
                    "(tools.mcp.max_tools): send allowed_tools",
                    param="tools",
                    code="too_many_tools",
                )
            return ToolCatalogue.build(tools, reserved_names, own_tools=[READ_RESULT])

        return self._host.catalogues.find(self._servers, lists, reserved_names, build)
