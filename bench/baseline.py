"""This run beside the committed one: each figure as a ratio measured within its own run, since machines differ."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from bench.noise import Verdict, change, verdict
from bench.table import number, titled

Written: TypeAlias = dict[str, Any]
"""A file of results: see `bench.report.write`."""

SECTIONS = ("rows", "state", "start")


@dataclass(frozen=True)
class Change:
    """One figure, in every round of both runs."""

    name: str
    before: Sequence[float]
    after: Sequence[float]

    @property
    def verdict(self) -> Verdict:
        return verdict(self.before, self.after)


def read(path: Path) -> Written:
    """A file of results; an empty one where there is none."""
    if not path.exists():
        return {"machine": "", **{section: [] for section in SECTIONS}}
    written: Written = json.loads(path.read_text())
    return written


def compare(before: Written, after: Written) -> list[Change]:
    """What both runs have measured, in the order of the newer."""
    old, new = _ratios(before), _ratios(after)
    return [Change(name, old[name], rounds) for name, rounds in new.items() if name in old]


def merged(before: Written, after: Written) -> Written:
    """The newer run, and of the older one what the newer did not measure."""
    kept = dict(after)
    for section in SECTIONS:
        measured = {_name(row) for row in after[section]}
        kept[section] = [row for row in before[section] if _name(row) not in measured] + after[section]
    return kept


def table(changes: Sequence[Change]) -> str:
    """Old and new, and what is marked because it is more than scatter."""
    return titled(("beside the baseline", "old", "new", "change", ""), [*map(_cells, changes)])


def _cells(of: Change) -> tuple[str, ...]:
    shift = f"{change(of.before, of.after):+.1%}"
    return (of.name, number(median(of.before)), number(median(of.after)), shift, of.verdict)


def _ratios(written: Written) -> dict[str, list[float]]:
    return {_name(row): row["ratios"] for section in SECTIONS for row in written[section] if row["ratios"]}


def _name(row: dict[str, Any]) -> str:
    return f"{row['name']}, {row['database']}" if row.get("database") else str(row["name"])
