"""Compares a run with the committed baseline. Machines differ, so it compares ratios within each run."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from bench.reports.scatter import Verdict, change, verdict
from bench.reports.text_table import number, render_table

Results: TypeAlias = dict[str, Any]
"""A file of results, as `bench.reports.scenario_table.build_results` returns it."""

SECTIONS = ("rows", "state", "start")


@dataclass(frozen=True)
class Change:
    """One figure in every round of both runs."""

    name: str
    before: Sequence[float]
    after: Sequence[float]

    @property
    def verdict(self) -> Verdict:
        return verdict(self.before, self.after)


def read(path: Path) -> Results:
    """Returns a file of results; empty results if there is no such file."""
    if not path.exists():
        return {"machine": "", **{section: [] for section in SECTIONS}}
    results: Results = json.loads(path.read_text())
    return results


def compare(before: Results, after: Results) -> list[Change]:
    """Returns the changes of the figures that both runs measured, in the order of the newer run."""
    old, new = _ratios(before), _ratios(after)
    return [Change(name, old[name], rounds) for name, rounds in new.items() if name in old]


def merge(before: Results, after: Results) -> Results:
    """Returns the newer run, and those rows of the older one that the newer did not measure."""
    results = dict(after)
    for section in SECTIONS:
        measured = {_name(row) for row in after[section]}
        results[section] = [row for row in before[section] if _name(row) not in measured] + after[section]
    return results


def table(changes: Sequence[Change]) -> str:
    """Returns the table of old and new figures. Changes beyond the scatter of the rounds are marked."""
    return render_table(("beside the baseline", "old", "new", "change", ""), [*map(_cells, changes)])


def _cells(row: Change) -> tuple[str, ...]:
    shift = f"{change(row.before, row.after):+.1%}"
    return (row.name, number(median(row.before)), number(median(row.after)), shift, row.verdict)


def _ratios(results: Results) -> dict[str, list[float]]:
    return {_name(row): row["ratios"] for section in SECTIONS for row in results[section] if row["ratios"]}


def _name(row: dict[str, Any]) -> str:
    return f"{row['name']}, {row['database']}" if row.get("database") else str(row["name"])
