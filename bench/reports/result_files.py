"""Reads and writes the files of results, which are in bench/results."""

import json
from pathlib import Path
from typing import Any, TypeAlias

RESULTS_FOLDER = Path(__file__).parents[1] / "results"
LATEST = RESULTS_FOLDER / "latest.json"
BASELINE = RESULTS_FOLDER / "baseline.json"

Results: TypeAlias = dict[str, Any]
"""The content of a file of results. `LATEST` and `BASELINE` have what `scenario_table.build_run_results` returns."""

SECTIONS = ("rows", "state", "start")


def read_results(path: Path) -> Results:
    """Returns a file of results; empty results if there is no such file."""
    if not path.exists():
        return {"machine": "", **{section: [] for section in SECTIONS}}
    results: Results = json.loads(path.read_text())
    return results


def write_results(results: Results, path: Path, indent: int | None = 2) -> None:
    """Writes a file of results as JSON."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=indent) + "\n")
