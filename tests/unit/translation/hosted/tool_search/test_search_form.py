"""The two items of a search for tools, and what a later turn reads of them."""

from typing import Any, Final

import pytest

from tests.tool_rounds import LoopDriver, call, round_of, text
from translation.hosted.call_forms import MCP_FORM, CallView
from translation.hosted.outcomes import ToolOutcome, build_execution_error
from translation.hosted.past_hosted_calls import resolve_history
from translation.hosted.tool_search.search_form import SEARCH_FORM, write_loaded
from translation.hosted.tools import HostedTool, ToolKey, model_name_of
from translation.representation.events import ItemEnded, Progressed

CALL: Final[Any] = {
    "id": "tsc_1",
    "type": "tool_search_call",
    "execution": "server",
    "call_id": None,
    "arguments": {"query": "q"},
}
OUTPUT: Final[Any] = {
    "id": "tso_1",
    "type": "tool_search_output",
    "execution": "server",
    "tools": [{"type": "function", "name": "add"}],
}


def test_the_two_items_are_one_call_for_the_model() -> None:
    forms = {"tool_search_call": SEARCH_FORM}
    client: Any = {**CALL, "execution": "client", "call_id": "c"}
    items = [CALL, {**CALL, "id": "tsc_2", "arguments": "odd"}, OUTPUT, client, {**OUTPUT, "tools": []}, OUTPUT]
    history = resolve_history(items, lambda key: key.name, forms=forms)
    assert [item.get("output") for item in history.items if item["type"] == "function_call_output"] == [
        "Loaded: add",
        write_loaded([]),
    ]
    assert history.items[0]["arguments"] == '{"query":"q"}'
    assert history.items[2]["arguments"] == "{}"
    assert history.items[-1] == client, "searches of the client are its own"
    assert history.sources["tsc_1"] == [CALL, OUTPUT]


@pytest.mark.parametrize(
    ("arguments", "read"), [('{"query": "q"}', {"query": "q"}), ("no json", {}), ("[]", {}), ("", {})]
)
def test_the_arguments_of_a_call_are_an_object(arguments: str, read: Any) -> None:
    view = CallView("tool_search", "tool_search", arguments, None, ToolOutcome())
    assert SEARCH_FORM.build_fields(view) == {"arguments": read, "call_id": None, "execution": "server"}


def test_a_call_that_failed_has_no_second_item() -> None:
    assert SEARCH_FORM.build_output_item("tsc_1", build_execution_error("no"), lambda _: []) is None
    item = SEARCH_FORM.build_output_item("tsc_1", ToolOutcome(output="Loaded: a, b"), lambda names: [{"n": [*names]}])
    assert item is not None
    assert (item["id"], item["tools"]) == ("tso_1", [{"n": ["a", "b"]}])


def test_forms_with_one_item_have_the_result_in_it() -> None:
    assert MCP_FORM.build_output_item("mcp_1", ToolOutcome(), lambda _: []) is None
    assert MCP_FORM.read_output({"output": "x"}) == "x"
    assert MCP_FORM.reads({"type": "mcp_call"})


def test_a_search_in_a_loop_has_two_items_and_no_phases() -> None:
    tool = HostedTool(
        key=ToolKey("tool_search", "tool_search"),
        parameters={"type": "object"},
        needs_approval=False,
        prefix="",
        form=SEARCH_FORM,
        choice_type="tool_search",
    )
    driver = LoopDriver(tool)
    driver.ask()
    driver.feed(round_of(call("tool_search", "{}"), call("tool_search", '{"a": 1}', "call_2"), reason="tool_calls"))
    first, second = driver.loop.pending_calls
    driver.take(driver.loop.settle_call(second, build_execution_error("no")))
    driver.take(driver.loop.settle_call(first, ToolOutcome(output=write_loaded([]))))
    driver.ask()
    driver.feed(round_of(text("Yes.")))
    items = [event.item for event in driver.events if isinstance(event, ItemEnded) and event.item is not None]
    assert [(item["type"], item["status"]) for item in items] == [
        ("tool_search_call", "completed"),
        ("tool_search_call", "incomplete"),
        ("tool_search_output", "completed"),
    ]
    assert not [event for event in driver.events if isinstance(event, Progressed)]
    assert model_name_of(tool.key, tool.prefix) == "tool_search"
