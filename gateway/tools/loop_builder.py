"""Lists the tools of the servers of a response, and builds its loop with them."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from dataplane.body_weight import run_for_items
from gateway.errors import ToolListFailed
from gateway.tools.executors.executor import ListedTools, ToolExecutor, ToolFault
from gateway.tools.executors.wrappers import KnownListExecutor
from gateway.tools.host import ToolHost
from gateway.tools.loop_io import LoopIO
from gateway.tools.past_results import PastSearches
from gateway.tools.redacted_results import ResultRedactor
from providers.new_id import new_id
from translation.hosted.approvals import ApprovalAnswers
from translation.hosted.bounds import LoopBounds
from translation.hosted.call_forms import PastHostedCall
from translation.hosted.citations.citation_table import MarkedResult
from translation.hosted.loop.model_context import ModelContext
from translation.hosted.loop.tool_loop import ToolLoop
from translation.hosted.past_hosted_calls import ApprovedCalls, ResolvedHistory, resolve_history
from translation.hosted.result_reader import ResultReader
from translation.hosted.tool_search.deferred_tools import list_deferred, split_deferred
from translation.hosted.tool_search.search_form import SEARCH_FORM
from translation.hosted.tools import ToolCatalogue, ToolKey
from translation.representation.events import Event
from translation.representation.json_types import Item, Json
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
    """Builds the loop of one response. `turn` has the client's own tools. `executors` list the tools of the gateway."""

    def __init__(
        self,
        turn: Turn,
        executors: Sequence[ToolExecutor],
        host: ToolHost,
        bounds: LoopBounds,
        answers: ApprovalAnswers,
        loop_io: LoopIO,
        *,
        redactor: ResultRedactor,
    ) -> None:
        self.approved_labels: Collection[str] = ()
        """The servers of the approved calls. Their lists are read again, because the tools may have changed."""
        self.reader: Final = ResultReader(bounds.result_chars)
        """The results of the input and of the loop that are cut for the model."""
        self._turn: Final = turn
        self._executors: Final = executors
        self._host: Final = host
        self._bounds: Final = bounds
        self._answers: Final = answers
        self._redactor: Final = redactor
        self._loop_io: Final = loop_io

    async def list_tools(self) -> BuiltLoop:
        """Lists the tools of the executors, all at once, and returns the loop with them.

        Raises ToolListFailed if no tools can be listed, or if tools are needed that cannot: the tool choice names their
        server, or a call of one of them is approved.
        """
        items = self._turn.items
        history, missing = await run_for_items(items, self._find_missing_lists)
        results: Sequence[ListedTools | BaseException] = ()
        if missing:
            results = await asyncio.gather(*map(self._list_tools_of, missing), return_exceptions=True)
        return await run_for_items(items, self._build_with_lists, history.listed, missing, results)

    def build_with_known_lists(self) -> BuiltLoop | None:
        """Returns the loop if the gateway knows the tools of all servers; None if a server has to be asked for them."""
        history, missing = self._find_missing_lists()
        known = [each.find_known_tools(_allow_all) for each in missing]
        results = [listed for listed in known if listed is not None]
        return None if len(results) < len(missing) else self._build_with_lists(history.listed, missing, results)

    def adopt_turn(self, turn: Turn) -> Turn:
        """Returns the turn of a round of another loop with the parameters of this loop's turn."""
        return replace(
            self._turn,
            items=turn.items,
            tools=turn.tools,
            trained_names=turn.trained_names,
            tool_choice=turn.tool_choice,
            parallel_tool_calls=turn.parallel_tool_calls,
            max_output_tokens=turn.max_output_tokens,
        )

    def _find_missing_lists(self) -> tuple[ResolvedHistory, list[ToolExecutor]]:
        """Returns the input before its tools have names, and the executors whose lists are missing in it.

        A list in the input is not fetched again, unless a call of the server is approved: the tool may have changed.
        The list of an operator's server is always the gateway's own.
        """
        history = resolve_history(
            self._turn.items,
            lambda key: key.name,
            approved_ids=self._answers.approved,
            continued_ids=self._answers.inputs,
            forms=self._host.forms,
        )
        self.approved_labels = {call.key.server for call in history.approved}
        interruption = self._loop_io.interruption
        context_items = () if interruption is None else interruption.context_items
        # Lists from before an interruption stay unchanged until the end of the response.
        pinned = {item["server_label"] for item in context_items if item["type"] == "mcp_list_tools"}
        missing: list[ToolExecutor] = []
        for each in self._executors:
            past = history.listed.get(each.source.label) if each.source.trusts_past_lists else None
            if each.source.label in pinned:
                each.keep_list()
            elif past is not None:
                missing.append(KnownListExecutor(each, ListedTools(past["tools"])))
            else:
                missing.append(each)
        return history, missing

    def _build_with_lists(
        self,
        listed_before: Mapping[str, Item],
        missing: Sequence[ToolExecutor],
        results: Sequence[ListedTools | BaseException],
    ) -> BuiltLoop:
        """Returns the loop with the lists of the input and these results. Raises ToolListFailed."""
        lists, new_items = self._merge_lists(listed_before, missing, results)
        built = self._build_loop(lists)
        loop, events = built.loop, built.events
        if self._loop_io.interruption is not None:
            events += loop.resume(self._loop_io.interruption)
        elif new_items:
            events += loop.start()
        for item in new_items:
            started = {name: value for name, value in item.items() if name != "error"} | {"tools": []}
            phase = "completed" if item["server_label"] in lists else "failed"
            events += loop.emit_item(item, started=started, phases=("in_progress", phase))
        return built._replace(lists={label: lists[label] for label in lists if label not in self._hidden_labels})

    def _merge_lists(
        self,
        listed_before: Mapping[str, Item],
        missing: Sequence[ToolExecutor],
        results: Sequence[ListedTools | BaseException],
    ) -> tuple[dict[str, Item], list[Item]]:
        """Returns the lists of tools by the labels of their servers, and the items to send: new lists, changed lists,
        and faults. `results` belong to the servers in `missing`. Raises ToolListFailed."""
        lists: dict[str, Item] = dict(listed_before)
        new_items: list[Item] = []
        faults = [result for result in results if isinstance(result, ToolFault)]
        for executor, result in zip(missing, results, strict=True):
            source = executor.source
            item: Item = {"id": new_id("mcpl"), "type": "mcp_list_tools", "server_label": source.label}
            before = listed_before.get(source.label, {}).get("tools")
            if isinstance(result, ListedTools):
                item["tools"] = result.definitions
                if (note := result.describe_left_out()) is not None:
                    item["error"] = self._redactor.redact(note)
                lists[source.label] = item
                is_new = item["tools"] != before
            elif isinstance(result, ToolFault):
                is_last = len(faults) == len(self._executors) and not source.is_added
                is_needed = is_last or source.label in self.approved_labels
                self._require_dispensable(source.label, result, is_needed=is_needed)
                item |= {"tools": [], "error": self._redactor.redact(str(result))}
                lists.pop(source.label, None)
                is_new = True
            else:
                raise result
            if is_new and source.shows_list:
                new_items.append(item)
        return lists, new_items

    def _build_loop(self, lists: dict[str, Item]) -> BuiltLoop:
        """Returns the loop with these lists of tools, over the input of the turn. It has no events yet."""
        catalogue = self._build_catalogue(lists)
        searches = PastSearches(self._loop_io.trained_tools)
        history = resolve_history(
            self._turn.items,
            catalogue.name_of,
            approved_ids=self._answers.approved,
            continued_ids=self._answers.inputs,
            not_run_reasons=self._answers.not_run_reasons,
            adapt_call=partial(self._adapt_past_call, catalogue, searches),
            forms=self._host.forms,
        )
        turn = replace(
            self._turn,
            items=self._loop_io.add_media(history.items),
            tools=self._defer_tools(catalogue),
            trained_names={**catalogue.trained_names, **searches.trained_names},
        )
        tools = {call.approval_request_id: catalogue.find(catalogue.name_of(call.key)) for call in history.approved}
        changed_ids = self._answers.find_changed(tools)
        approved = ApprovedCalls(history.approved, changed_ids, self._answers.inputs)
        loop_io = self._loop_io
        context = ModelContext(turn.items, self.reader, history.sources, loop_io.citations, loop_io.deferred)
        loop = ToolLoop(turn, catalogue, approved, self._bounds, new_id, context)
        return BuiltLoop(loop, [], lists, changed_ids, history.open_ids.difference(tools))

    def _defer_tools(self, catalogue: ToolCatalogue) -> Sequence[Json]:
        """Returns the client's tools that the model sees at once. The others can be searched, if there is a search."""
        if not any(tool.form is SEARCH_FORM for tool in catalogue.tools.values()):
            return self._turn.tools
        visible, own = split_deferred(self._turn.tools)
        self._loop_io.deferred.fill([*own, *list_deferred(catalogue)])
        self._loop_io.deferred.load_from_history(self._turn.items)
        return visible

    def _adapt_past_call(
        self, catalogue: ToolCatalogue, searches: PastSearches, call_id: str, call: PastHostedCall
    ) -> PastHostedCall:
        """Returns a call in the input as the model reads it here. The markers in its result are valid from now on."""
        adopted = self._loop_io.citations.adopt(MarkedResult(call.output, call.citables))
        key = ToolKey(call.server, call.name)
        if catalogue.find(catalogue.name_of(key)) is None:
            call = searches.adapt(call, catalogue.name_of)
        arguments = catalogue.adapt_arguments(key, call.arguments)
        return call._replace(arguments=arguments, output=self.reader.cut(call_id, adopted.text))

    async def _list_tools_of(self, executor: ToolExecutor) -> ListedTools:
        """Returns the tools of an executor that the request may use. Raises ToolFault."""
        label = executor.source.label
        self._loop_io.require_credentials(label)
        return await executor.list_tools(_allow_all, must_be_fresh=label in self.approved_labels)

    def _require_dispensable(self, label: str, fault: ToolFault, *, is_needed: bool) -> None:
        """Raises ToolListFailed if the request cannot be served without this server: it `is_needed`, or forced."""
        choice = self._turn.tool_choice
        is_forced = isinstance(choice, dict) and _forces_server(choice, label)
        if is_needed or is_forced:
            reason = self._redactor.redact(str(fault))
            raise ToolListFailed(f"Error retrieving tool list from MCP server: '{label}': {reason}", param="tools")

    def _build_catalogue(self, lists: Mapping[str, Item]) -> ToolCatalogue:
        reserved_names = [tool["name"] for tool in self._turn.tools if tool.get("name")]
        return self._host.catalogues.find(self._executors, lists, reserved_names)

    @property
    def _hidden_labels(self) -> frozenset[str]:
        return frozenset(each.source.label for each in self._executors if not each.source.shows_list)


def _allow_all(_name: str, _is_read_only: bool) -> bool:
    return True


def _forces_server(choice: Json, label: str) -> bool:
    """Whether a tool choice demands a call that only tools of this server can meet."""
    if choice["type"] != "allowed_tools":
        return bool(choice.get("server_label") == label)
    return choice.get("mode") == "required" and all(tool.get("server_label") == label for tool in choice["tools"])
