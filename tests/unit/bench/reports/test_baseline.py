"""A run beside the committed one: only what is more than scatter is marked."""

import pytest

from bench.reports.baseline import compare_runs, judge_change, merge_runs, relative_change, render_changes
from bench.reports.result_files import read_results


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ([2.0, 2.1, 2.2], [2.5, 2.6, 2.7], "worse"),
        ([2.0, 2.1, 2.2], [1.5, 1.6, 1.7], "better"),
        ([2.0, 2.1, 2.2], [2.15, 2.6, 2.7], ""),
        ([2.0, 2.1, 2.2], [2.1], ""),
        ([1.000, 1.001], [1.03, 1.04], ""),
        ([2.0], [2.2], ""),
        ([2.0], [2.6], "worse"),
        ([1.0], [1.0], ""),
        ([0.0], [1.0], "worse"),
    ],
    ids=[
        "every round is more",
        "every round is less",
        "rounds overlap",
        "one round",
        "sure but small",
        "few rounds",
        "few but far",
        "equal",
        "new",
    ],
)
def test_a_change_is_marked_where_no_round_overlaps(before: list[float], after: list[float], text: str) -> None:
    assert judge_change(before, after) == text


def test_a_change_is_of_the_medians() -> None:
    assert relative_change([1.0, 2.0, 9.0], [3.0]) == pytest.approx(0.5)
    assert relative_change([0.0], [0.0]) == 0


def results(**rows: list[float]) -> dict:
    return {"machine": "this", "rows": [row(name, ratios) for name, ratios in rows.items()], "state": [], "start": []}


def row(name: str, ratios: list[float], database: str | None = None) -> dict:
    return {"name": name, "ratios": ratios} | ({"database": database} if database else {})


def test_figures_of_both_runs_are_compared() -> None:
    changes = compare_runs(results(translate=[2.0], relay=[3.0]), results(translate=[4.0], back=[1.0]))
    assert [(one.name, one.verdict) for one in changes] == [("translate", "worse")]


def test_the_same_figure_on_two_databases_is_two_figures() -> None:
    state = [row("end", [1.0], "SQLite"), row("end", [2.0], "PostgreSQL")]
    changes = compare_runs(results() | {"state": state}, results() | {"state": state})
    assert [(one.name, one.before) for one in changes] == [("end, SQLite", [1.0]), ("end, PostgreSQL", [2.0])]


def test_a_figure_without_a_ratio_is_not_compared() -> None:
    assert compare_runs(results(translate=[]), results(translate=[1.0])) == []
    assert compare_runs(results(translate=[1.0]), results(translate=[])) == []


def test_without_a_baseline_nothing_is_compared(tmp_path) -> None:
    assert compare_runs(read_results(tmp_path / "baseline.json"), results(translate=[1.0])) == []


def test_a_run_of_some_scenarios_leaves_the_others_of_the_baseline() -> None:
    kept = merge_runs(results(translate=[2.0], relay=[3.0]), results(translate=[4.0]))
    assert kept["rows"] == [row("relay", [3.0]), row("translate", [4.0])]


def test_the_table_has_old_and_new_figures_and_marks_worse_ones() -> None:
    lines = render_changes(compare_runs(results(translate=[2.0], relay=[3.0]), results(translate=[3.0], relay=[2.9])))
    titles, _, translate, relay = (line.split() for line in lines.splitlines())
    assert titles == ["beside", "the", "baseline", "old", "new", "change"]
    assert translate == ["translate", "2.00", "3.00", "+50.0%", "worse"]
    assert relay == ["relay", "3.00", "2.90", "-3.3%"]
