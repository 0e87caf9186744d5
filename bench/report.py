"""Medians, ratios and the table."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from bench.measure import Figure
from bench.scenarios import Scenario
from bench.state_report import StateRow, aligned, number

RESULTS = Path(__file__).parent / "results"
LATEST = RESULTS / "latest.json"
BASELINE = RESULTS / "baseline.json"
WORSE = 1.25
"""A figure this much above the baseline's is marked; less is noise on a shared machine."""


@dataclass(frozen=True)
class Row:
    """One scenario's medians. `score` is what the target is compared with."""

    name: str
    unit: str
    direct: Figure
    nginx: Figure | None
    gateway: Figure
    score: float | None
    target: float

    @property
    def missed(self) -> bool:
        return self.score is not None and self.score > self.target


def row(scenario: Scenario, runs: dict[str, list[Figure]]) -> Row:
    """The medians of interleaved runs, by server: `direct`, `gateway` and, where it is installed, `nginx`."""
    figures = {name: _median(of) for name, of in runs.items()}
    gateway, nginx = figures["gateway"], figures.get("nginx")
    return Row(
        name=scenario.name,
        unit=scenario.unit,
        direct=figures["direct"],
        nginx=nginx,
        gateway=gateway,
        score=_score(scenario, figures["direct"], nginx, gateway),
        target=scenario.target,
    )


def write(rows: list[Row], state: list[StateRow], machine: str, path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    written = {
        "machine": machine,
        "rows": [asdict(row) for row in rows],
        "state": [asdict(row) for row in state],
    }
    path.write_text(json.dumps(written, indent=2) + "\n")


def baseline_scores(path: Path = BASELINE) -> dict[str, float]:
    """Scores of the committed run by scenario; empty where there is none."""
    if not path.exists():
        return {}
    return {row["name"]: row["score"] for row in json.loads(path.read_text())["rows"] if row["score"] is not None}


def table(scenarios: list[Scenario], rows: list[Row], baseline: dict[str, float]) -> str:
    lines = [_COLUMNS, tuple("-" * len(name) for name in _COLUMNS)]
    lines += [_cells(scenario, row, baseline.get(row.name)) for scenario, row in zip(scenarios, rows, strict=True)]
    return aligned(lines)


_COLUMNS = ("scenario", "unit", "direct", "nginx", "gateway", "score", "target", "baseline", "req/s", "deltas/s", "")


def _cells(scenario: Scenario, row: Row, before: float | None) -> tuple[str, ...]:
    sign = "" if scenario.absolute else "x nginx"
    marks = ["missed"] * row.missed
    if before is not None and row.score is not None and row.score > before * WORSE:
        marks.append("worse than the baseline")
    return (
        row.name,
        row.unit,
        number(row.direct.value),
        number(row.nginx.value if row.nginx else None),
        number(row.gateway.value),
        f"{number(row.score)} {sign}".strip(),
        f"≤ {number(row.target)}",
        number(before),
        _rates(row, "requests_per_s"),
        _rates(row, "deltas_per_s"),
        ", ".join(marks),
    )


def _score(scenario: Scenario, direct: Figure, nginx: Figure | None, gateway: Figure) -> float | None:
    assert gateway.value is not None
    if scenario.measure == "first delta":
        assert direct.value is not None
        return gateway.value - direct.value
    if scenario.absolute:
        return gateway.value
    return gateway.value / nginx.value if nginx and nginx.value else None


def _median(figures: list[Figure]) -> Figure:
    values = [figure.value for figure in figures if figure.value is not None]
    return Figure(
        median(values) if values else None,
        median(figure.requests_per_s for figure in figures),
        median(figure.deltas_per_s for figure in figures),
    )


def _rates(row: Row, field: str) -> str:
    """direct / nginx / gateway."""
    figures = [row.direct, *([row.nginx] if row.nginx else []), row.gateway]
    rates = [getattr(figure, field) for figure in figures]
    return " / ".join(f"{rate:,.0f}" for rate in rates) if any(rates) else "-"
