"""Compares a run with the committed baseline. Machines differ, so it compares ratios within each run."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from bench.reports.result_files import SECTIONS, Results
from bench.reports.scatter import ChangeVerdict, judge_change, relative_change
from bench.reports.text_table import format_number, render_table


@dataclass(frozen=True)
class Change:
    """One figure in every round of both runs."""

    name: str
    before: Sequence[float]
    after: Sequence[float]

    @property
    def verdict(self) -> ChangeVerdict:
        return judge_change(self.before, self.after)


def compare_runs(before: Results, after: Results) -> list[Change]:
    """Returns the changes of the figures that both runs measured, in the order of the newer run."""
    old, new = _ratios(before), _ratios(after)
    return [Change(name, old[name], rounds) for name, rounds in new.items() if name in old]


def merge_runs(before: Results, after: Results) -> Results:
    """Returns the newer run, and those rows of the older one that the newer did not measure."""
    results = dict(after)
    for section in SECTIONS:
        measured = {_name(row) for row in after[section]}
        results[section] = [row for row in before[section] if _name(row) not in measured] + after[section]
    return results


def render_changes(changes: Sequence[Change]) -> str:
    """Returns the table of old and new figures. Changes beyond the scatter of the rounds are marked."""
    return render_table(("beside the baseline", "old", "new", "change", ""), [*map(_cells, changes)])


def _cells(row: Change) -> tuple[str, ...]:
    shift = f"{relative_change(row.before, row.after):+.1%}"
    return (row.name, format_number(median(row.before)), format_number(median(row.after)), shift, row.verdict)


def _ratios(results: Results) -> dict[str, list[float]]:
    return {_name(row): row["ratios"] for section in SECTIONS for row in results[section] if row["ratios"]}


def _name(row: dict[str, Any]) -> str:
    return f"{row['name']}, {row['database']}" if row.get("database") else str(row["name"])
