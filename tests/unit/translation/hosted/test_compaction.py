"""Contexts with hosted tools, split for their compaction, and loops that continue from a summary."""

from typing import Any

import pytest

from tests.tool_rounds import LoopDriver, call, hosted_tool, round_of, text, whole
from tests.unit.translation.hosted.test_past_hosted_calls import QUESTION, answer, mcp_call, request
from translation.hosted.compaction import HostedContextParts, split_hosted_context
from translation.hosted.interruptions.interruption import Interruption
from translation.hosted.interruptions.sent_output import SentOutput
from translation.hosted.past_hosted_calls import resolve_history
from translation.hosted.tools import model_name_of
from translation.representation.events import Finished, ItemEnded, Usage
from translation.representation.json_types import Item

TOOLS: Item = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "calc", "tools": [{"name": "add"}]}
RULES: Item = {"type": "message", "role": "developer", "content": []}
COMPACTION: Item = {"id": "cmp_1", "type": "compaction", "encrypted_content": "x"}
SUMMARY: Item = {"id": "cmp_1", "type": "message", "role": "user", "content": []}


def split(*items: Item, awaits_answer: bool = True) -> HostedContextParts:
    history = resolve_history(items, model_name_of)
    return split_hosted_context(
        history.items, history.sources, history.open_ids, history.listed.values(), awaits_answer=awaits_answer
    )


def kinds(items: list[Item]) -> list[str]:
    return [item["type"] for item in items]


def test_summarized_items_have_the_models_form_and_other_items_that_of_the_api() -> None:
    last = mcp_call(id="mcp_2", output="6")
    parts = split(RULES, TOOLS, QUESTION, mcp_call(), QUESTION, last)
    assert parts.instructions == [RULES]
    assert kinds(parts.summarizable) == ["message", "function_call", "function_call_output"]
    assert kinds(parts.retained) == ["message", "function_call", "function_call_output"]
    assert parts.sealed == [TOOLS, QUESTION, last]


def test_only_the_lists_of_tools_always_stay() -> None:
    parts = split(TOOLS, QUESTION, mcp_call(), awaits_answer=False)
    assert kinds(parts.summarizable) == ["message", "function_call", "function_call_output"]
    assert (parts.retained, parts.sealed) == ([], [TOOLS])


WAITING: dict[str, list[Item]] = {
    "nobody answered": [request()],
    "it is approved and has not run": [request(), answer()],
}


@pytest.mark.parametrize("waiting", WAITING.values(), ids=WAITING)
def test_a_request_for_an_approval_that_can_still_count_stays(waiting: list[Item]) -> None:
    parts = split(QUESTION, *waiting, QUESTION)
    assert kinds(parts.summarizable) == ["message"]
    assert parts.sealed == [*waiting, QUESTION]


@pytest.mark.parametrize(
    "past", [[request(), answer(approve=False)], [request(), answer(), mcp_call(approval_request_id="mcpr_1")]]
)
def test_an_obsolete_request_for_an_approval_is_summarized(past: list[Item]) -> None:
    parts = split(QUESTION, *past, QUESTION)
    assert kinds(parts.summarizable) == ["message", "function_call", "function_call_output"]
    assert parts.sealed == [QUESTION]


def test_a_loop_continues_from_a_summary_and_counts_its_usage() -> None:
    driver = LoopDriver(hosted_tool(), past=[QUESTION], max_output_tokens=100)
    assert driver.loop.round_usage is None
    driver.run_round(call(), reason="tool_calls", usage=Usage(input=10, output=20))
    turn = driver.ask()
    assert driver.loop.round_usage == Usage(input=10, output=20)
    assert driver.loop.sources["call_1"] == [driver.output[0]]
    driver.take(driver.loop.replace_context(COMPACTION, [SUMMARY, *turn.items[-1:]], Usage(input=5, output=50)))
    driver.feed(round_of(call(arguments='{"a": 2}', call_id="c2"), usage=Usage(input=3, output=30)))
    driver.settle(driver.loop.pending_calls[0])
    last = driver.run_round(text("3"))
    assert kinds([*last.items]) == ["message", "function_call_output", "function_call", "function_call_output"]
    assert last.max_output_tokens == 50, "what the summary took is not the answer's"
    assert driver.types == ["mcp_call", "compaction", "mcp_call", "message"]
    end = driver.finish()
    assert isinstance(end, Finished)
    assert end.usage == Usage(input=18, output=100)


def test_a_compaction_may_precede_everything_else() -> None:
    driver = LoopDriver(hosted_tool(), past=[QUESTION])
    driver.ask()
    driver.take(driver.loop.replace_context(COMPACTION, [SUMMARY], None))
    driver.feed(round_of(text("3")))
    driver.finish()
    assert driver.types == ["compaction", "message"]


def test_approved_calls_are_in_the_context_as_they_ended() -> None:
    past = [QUESTION, request(), answer()]
    driver = LoopDriver(hosted_tool("add", needs_approval=True), past=past, approved_ids=["mcpr_1"])
    driver.take(driver.loop.start_approved_calls())
    driver.settle(driver.loop.pending_calls[0], "5")
    driver.ask()
    (item,) = driver.loop.sources["mcpr_1"]
    assert (item["approval_request_id"], item["output"]) == ("mcpr_1", "5")


def test_a_loop_interrupted_after_a_compaction_continues_from_it() -> None:
    driver = LoopDriver(hosted_tool(), past=[QUESTION])
    driver.run_round(call(), reason="tool_calls", usage=Usage(input=1, output=1))
    driver.ask()
    driver.take(driver.loop.replace_context(COMPACTION, [SUMMARY], Usage(input=5, output=5)))
    progress: Any = driver.loop.save_progress()
    driver.feed(round_of(whole({"id": "rs_1", "type": "reasoning", "summary": []}))[:-1])
    interruption = Interruption({**progress, "items": 1}, SentOutput(driver.events))
    assert interruption.is_resumable
    assert kinds([*interruption.context_items]) == ["mcp_call", "compaction"]
    resumed = driver.interrupt({**progress, "items": 1}, driver.events, hosted_tool())
    resumed.run_round(text("3"), usage=Usage(input=1, output=1))
    assert resumed.types == ["mcp_call", "compaction", "reasoning", "message"]
    assert sum(isinstance(event, ItemEnded) for event in resumed.events) == 4
    end = resumed.finish()
    assert end.usage == Usage(input=7, output=7)
    older = {name: value for name, value in progress.items() if name != "summary_usage"}
    resumed = driver.interrupt({**older, "items": 1}, driver.events, hosted_tool())
    resumed.run_round(text("3"), usage=Usage(input=1, output=1))
    assert resumed.finish().usage == Usage(input=2, output=2)
