"""Compares a run with the committed baseline. Machines differ, so it compares ratios within each run."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from bench.reports.result_files import SECTIONS, Results
from bench.reports.text_table import format_number, render_table

ChangeVerdict = Literal["", "better", "worse"]

_MIN_CHANGE = 0.05
"""A smaller relative change is never marked, however certain it is."""
_MIN_ROUNDS = 3
_MIN_CHANGE_FEW_ROUNDS = 0.25
"""With fewer than `_MIN_ROUNDS` rounds the scatter is not known, so only a change larger than this is marked."""


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


def relative_change(before: Sequence[float], after: Sequence[float]) -> float:
    """Returns the change of the medians, relative to the old one; 0 if both are equal, also if both are 0."""
    old, new = median(before), median(after)
    if old == new:
        return 0.0
    return (new - old) / old if old else float("inf")


def judge_change(before: Sequence[float], after: Sequence[float]) -> ChangeVerdict:
    """Returns whether a figure got better (smaller) or worse.

    It is marked only if the rounds of the two runs do not overlap, and their medians differ enough.
    """
    few = min(len(before), len(after)) < _MIN_ROUNDS
    if abs(relative_change(before, after)) <= (_MIN_CHANGE_FEW_ROUNDS if few else _MIN_CHANGE):
        return ""
    if min(after) > max(before):
        return "worse"
    if max(after) < min(before):
        return "better"
    return ""


def _cells(row: Change) -> tuple[str, ...]:
    shift = f"{relative_change(row.before, row.after):+.1%}"
    return (row.name, format_number(median(row.before)), format_number(median(row.after)), shift, row.verdict)


def _ratios(results: Results) -> dict[str, list[float]]:
    return {_name(row): row["ratios"] for section in SECTIONS for row in results[section] if row["ratios"]}


def _name(row: dict[str, Any]) -> str:
    return f"{row['name']}, {row['database']}" if row.get("database") else str(row["name"])
