"""The report adds up calls by tool, and survives the process that began it."""

from translation.hosted.call_forms import MCP_FORM
from translation.hosted.calls import NO_ITEM, HostedCall, build_call_figures
from translation.hosted.outcomes import ToolOutcome, build_execution_error, build_skip
from translation.hosted.tool_report import CallFigures, ToolReport
from translation.hosted.tool_search.search_form import SEARCH_FORM, write_loaded
from translation.hosted.tools import ToolKey


def never(_: str) -> bool:
    return False


def test_calls_are_added_up_by_tool() -> None:
    report = ToolReport()
    assert not report
    report.add_call("a", CallFigures(has_failed=False, elapsed_ms=3, size=10, results=2))
    report.add_call("a", CallFigures(has_failed=True, elapsed_ms=4, notes=("cut", "redacted")))
    report.add_call("b", CallFigures(has_failed=True, notes=("skipped",)))
    report.add_call("b", CallFigures(has_failed=True, notes=("skipped",)))
    assert report
    assert report.to_json() == {
        "tools": {
            "a": {"calls": 2, "failed": 1, "ms": 7, "bytes": 10, "results": 2},
            "b": {"calls": 2, "failed": 2, "ms": 0, "bytes": 0, "results": 0},
        },
        "notes": [
            {"tool": "a", "note": "cut", "calls": 1},
            {"tool": "a", "note": "redacted", "calls": 1},
            {"tool": "b", "note": "skipped", "calls": 2},
        ],
    }
    assert report.count_by_tool()["b"] == {"calls": 2, "failed": 2, "ms": 0, "bytes": 0, "results": 0, "skipped": 2}


def test_a_report_goes_on_where_another_process_stopped() -> None:
    first, second = ToolReport(), ToolReport()
    first.add_call("a", CallFigures(has_failed=True, notes=("skipped",)))
    second.restore(first.to_json())
    for report in (first, second):
        report.add_call("a", CallFigures(has_failed=False))
    assert second.to_json() == first.to_json()
    second.restore(None)  # of an older server
    assert second.to_json() == first.to_json()


def test_many_tools_are_counted_together() -> None:
    report = ToolReport()
    for number in range(150):
        report.add_call(f"t{number}", CallFigures(has_failed=False))
    tools = report.to_json()["tools"]
    assert len(tools) == 101
    assert tools["others"]["calls"] == 50


def test_the_numbers_of_a_call() -> None:
    outcome = ToolOutcome(output="é", media=[{"a": 1}], elapsed_ms=5)
    assert build_call_figures(outcome, MCP_FORM, never) == CallFigures(False, 5, 2 + len('{"a":1}'), 1, ())
    assert build_call_figures(outcome, MCP_FORM, lambda _: True).notes == ("cut",)
    cut = ToolOutcome(output="x", notes=("cut",))
    assert build_call_figures(cut, MCP_FORM, lambda _: True).notes == ("cut",), "once"
    failed = build_call_figures(build_execution_error("no"), MCP_FORM, never)
    assert (failed.has_failed, failed.size, failed.results) == (True, 2, 0)
    assert build_call_figures(build_skip("no"), MCP_FORM, never).notes == ("skipped",)
    found = ToolOutcome(output=write_loaded(["a", "b"]))
    assert build_call_figures(found, SEARCH_FORM, never).results == 2
    assert build_call_figures(ToolOutcome(output=write_loaded([])), SEARCH_FORM, never).results == 0


def test_a_call_without_a_tool_has_no_name_and_one_without_an_outcome_was_not_run() -> None:
    call = HostedCall(
        item_id="mcp_1", call_id="c", key=ToolKey("s", "made up"), model_name="made up", tool=None, index=NO_ITEM
    )
    assert call.report_name == "unknown"
    assert call.build_figures(never) == CallFigures(has_failed=True, notes=("skipped",))
