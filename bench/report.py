"""Medians, ratios and the tables."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from bench.baseline import Written
from bench.measure import Figure
from bench.scenarios import Scenario
from bench.state_report import StateRow
from bench.table import limit, number, render_table

RESULTS = Path(__file__).parent / "results"
LATEST = RESULTS / "latest.json"
BASELINE = RESULTS / "baseline.json"

OURS, DIRECT, NGINX = "gateway", "direct", "nginx"
_BESIDE = (DIRECT, NGINX, OURS)


@dataclass(frozen=True)
class Row:
    """One scenario. `figures` are medians by server, the others are of each round: `scores` is what the targets are
    compared with, `ratios` what a run on another machine can be compared with."""

    name: str
    unit: str
    absolute: bool
    figures: dict[str, Figure]
    scores: list[float]
    ratios: list[float]
    target: float | None
    fast: float | None

    @property
    def score(self) -> float | None:
        return median(self.scores) if self.scores else None

    @property
    def reached(self) -> str:
        """The best target that is."""
        if self.score is None or self.target is None or self.fast is None:
            return ""
        return "fast" if self.score <= self.fast else "main job" if self.score <= self.target else "missed"


def row(scenario: Scenario, rounds: Sequence[dict[str, Figure]]) -> Row:
    """Of interleaved rounds, by server: `direct`, `gateway`, and those that are installed of `nginx` and the peers."""
    servers = dict.fromkeys(name for one in rounds for name in one)
    ratios = [ratio for one in rounds if (ratio := _to_nginx(one)) is not None]
    return Row(
        name=scenario.name,
        unit=scenario.unit,
        absolute=scenario.absolute,
        figures={name: _median([one[name] for one in rounds if name in one]) for name in servers},
        scores=[_added(one, scenario) for one in rounds] if scenario.absolute else ratios,
        ratios=ratios,
        target=scenario.target,
        fast=scenario.fast,
    )


def written(rows: Sequence[Row], state: Sequence[StateRow], start: Sequence[StateRow], machine: str) -> Written:
    """The file of results. Every row has its `ratios`: they are what the baseline is compared by."""
    return {
        "machine": machine,
        "rows": [asdict(row) | {"score": row.score, "reached": row.reached} for row in rows],
        "state": [asdict(row) for row in state],
        "start": [asdict(row) for row in start],
    }


def save(results: Written, path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n")


def table(rows: Sequence[Row]) -> str:
    columns = (
        "scenario",
        "unit",
        *_BESIDE,
        "score",
        "main job",
        "fast",
        "reached",
        "req/s",
        "deltas/s",
    )
    return render_table(columns, [*map(_cells, rows)])


def peers_table(rows: Sequence[Row]) -> str | None:
    """Each peer beside the gateway; None where none was measured."""
    names = list(dict.fromkeys(name for row in rows for name in row.figures if name not in _BESIDE))
    if not names:
        return None
    compared = [row for row in rows if any(name in row.figures for name in names)]
    return render_table(
        ("peers", "unit", OURS, *names, "less than all"),
        [
            (
                row.name,
                row.unit,
                *(number(_value(row, name)) for name in (OURS, *names)),
                "yes" if _least(row, names) else "no",
            )
            for row in compared
        ],
    )


def _least(row: Row, names: Sequence[str]) -> bool:
    """Whether the gateway takes less than each peer."""
    ours = _value(row, OURS)
    theirs = [value for name in names if (value := _value(row, name)) is not None]
    return ours is not None and all(ours < value for value in theirs)


def _value(row: Row, name: str) -> float | None:
    figure = row.figures.get(name)
    return figure.value if figure else None


def _cells(row: Row) -> tuple[str, ...]:
    sign = "" if row.absolute else "x nginx"
    return (
        row.name,
        row.unit,
        *(number(_value(row, name)) for name in _BESIDE),
        f"{number(row.score)} {sign}".strip(),
        limit(row.target),
        limit(row.fast),
        row.reached,
        _rates(row, "requests_per_s"),
        _rates(row, "deltas_per_s"),
    )


def _added(figures: dict[str, Figure], scenario: Scenario) -> float:
    """What the gateway adds to a direct run, where there is something to measure in one."""
    ours, direct = figures[OURS].value, figures[DIRECT].value
    assert ours is not None, scenario
    return ours - direct if direct is not None else ours


def _to_nginx(figures: dict[str, Figure]) -> float | None:
    ours, theirs = (figures[name].value if name in figures else None for name in (OURS, NGINX))
    return ours / theirs if ours is not None and theirs else None


def _median(figures: Sequence[Figure]) -> Figure:
    values = [figure.value for figure in figures if figure.value is not None]
    return Figure(
        median(values) if values else None,
        median(figure.requests_per_s for figure in figures),
        median(figure.deltas_per_s for figure in figures),
    )


def _rates(row: Row, field: str) -> str:
    """direct / nginx / gateway."""
    rates = [getattr(row.figures[name], field) for name in _BESIDE if name in row.figures]
    return " / ".join(f"{rate:,.0f}" for rate in rates) if any(rates) else "-"
