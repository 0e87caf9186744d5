"""Computes the medians and ratios of a run, and renders its tables and its file of results."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

from bench.reports.result_files import Results
from bench.reports.text_table import format_limit, format_number, render_table
from bench.scenarios.cost_row import CostRow
from bench.scenarios.measurement import Figure
from bench.scenarios.scenario_list import Scenario

GATEWAY, DIRECT, NGINX, BASE = "gateway", "direct", "nginx", "base"
_SERVERS = (DIRECT, NGINX, GATEWAY)


@dataclass(frozen=True)
class ScenarioRow:
    """The results of one scenario.

    `figures` are the medians by server. `scores` and `ratios` have one value per round. Scores are compared with the
    targets. Ratios can be compared with a run on another machine.
    """

    name: str
    unit: str
    absolute: bool
    figures: dict[str, Figure]
    scores: list[float]
    ratios: list[float]
    base_ratios: list[float]
    """The gateway's figure divided by that of another commit's gateway, one per round; empty if there is no other."""
    target: float | None
    fast: float | None

    @property
    def score(self) -> float | None:
        """The median of the scores."""
        return median(self.scores) if self.scores else None

    @property
    def reached(self) -> str:
        """The best target that is reached: `fast`, `main job`, or `missed`. Empty if there is no target or score."""
        if self.score is None or self.target is None or self.fast is None:
            return ""
        return "fast" if self.score <= self.fast else "main job" if self.score <= self.target else "missed"


def build_row(scenario: Scenario, rounds: Sequence[dict[str, Figure]]) -> ScenarioRow:
    """Returns the row of a scenario from its rounds, which have a figure per server.

    The servers are `direct`, `gateway`, `base` if there is one, and `nginx` and the peers if they are installed.
    """
    servers = dict.fromkeys(name for figures in rounds for name in figures)
    ratios = [ratio for figures in rounds if (ratio := _ratio(figures, NGINX)) is not None]
    return ScenarioRow(
        name=scenario.name,
        unit=scenario.unit,
        absolute=scenario.absolute,
        figures={name: _median([figures[name] for figures in rounds if name in figures]) for name in servers},
        scores=[_added_value(figures, scenario) for figures in rounds] if scenario.absolute else ratios,
        ratios=ratios,
        base_ratios=[ratio for figures in rounds if (ratio := _ratio(figures, BASE)) is not None],
        target=scenario.target,
        fast=scenario.fast,
    )


def build_run_results(
    rows: Sequence[ScenarioRow], state: Sequence[CostRow], start: Sequence[CostRow], machine: str
) -> Results:
    """Returns the content of a file of results. Every row has the `ratios` that are compared with the baseline."""
    return {
        "machine": machine,
        "rows": [asdict(row) | {"score": row.score, "reached": row.reached} for row in rows],
        "state": [asdict(row) for row in state],
        "start": [asdict(row) for row in start],
    }


def render_scenarios(rows: Sequence[ScenarioRow]) -> str:
    """Returns the table of all scenarios."""
    columns = (
        "scenario",
        "unit",
        *_SERVERS,
        "score",
        "main job",
        "fast",
        "reached",
        "req/s",
        "deltas/s",
    )
    return render_table(columns, [*map(_cells, rows)])


def render_peers(rows: Sequence[ScenarioRow]) -> str | None:
    """Returns the table of the peers beside the gateway; None if no peer was measured."""
    names = list(dict.fromkeys(name for row in rows for name in row.figures if name not in (*_SERVERS, BASE)))
    if not names:
        return None
    compared = [row for row in rows if any(name in row.figures for name in names)]
    return render_table(
        ("peers", "unit", GATEWAY, *names, "less than all"),
        [
            (
                row.name,
                row.unit,
                *(format_number(_value(row, name)) for name in (GATEWAY, *names)),
                "yes" if _is_least(row, names) else "no",
            )
            for row in compared
        ],
    )


def render_base(rows: Sequence[ScenarioRow]) -> str | None:
    """Returns the table of another commit's gateway beside this one; None if there was no other."""
    compared = [row for row in rows if row.base_ratios]
    if not compared:
        return None
    columns = ("beside the base", "unit", GATEWAY, BASE, "gateway / base", "gateway, x nginx", "base, x nginx")
    return render_table(columns, [*map(_base_cells, compared)])


def _base_cells(row: ScenarioRow) -> tuple[str, ...]:
    gateway, base, nginx = (_value(row, name) for name in (GATEWAY, BASE, NGINX))
    multiples = [value / nginx if value and nginx else None for value in (gateway, base)]
    return row.name, row.unit, *map(format_number, (gateway, base, median(row.base_ratios), *multiples))


def _is_least(row: ScenarioRow, names: Sequence[str]) -> bool:
    """Returns whether the gateway's figure is less than the figure of each peer."""
    gateway = _value(row, GATEWAY)
    peers = [value for name in names if (value := _value(row, name)) is not None]
    return gateway is not None and all(gateway < value for value in peers)


def _value(row: ScenarioRow, name: str) -> float | None:
    figure = row.figures.get(name)
    return figure.value if figure else None


def _cells(row: ScenarioRow) -> tuple[str, ...]:
    sign = "" if row.absolute else "x nginx"
    return (
        row.name,
        row.unit,
        *(format_number(_value(row, name)) for name in _SERVERS),
        f"{format_number(row.score)} {sign}".strip(),
        format_limit(row.target),
        format_limit(row.fast),
        row.reached,
        _rates(row, "requests_per_s"),
        _rates(row, "deltas_per_s"),
    )


def _added_value(figures: dict[str, Figure], scenario: Scenario) -> float:
    """Returns the gateway's figure minus the figure of a direct run, or the gateway's figure alone if a direct run has
    none."""
    gateway, direct = figures[GATEWAY].value, figures[DIRECT].value
    assert gateway is not None, scenario
    return gateway - direct if direct is not None else gateway


def _ratio(figures: dict[str, Figure], other: str) -> float | None:
    """Returns the gateway's figure divided by another server's; None if one of them has none."""
    gateway, divisor = (figures[name].value if name in figures else None for name in (GATEWAY, other))
    return gateway / divisor if gateway is not None and divisor else None


def _median(figures: Sequence[Figure]) -> Figure:
    values = [figure.value for figure in figures if figure.value is not None]
    return Figure(
        median(values) if values else None,
        median(figure.requests_per_s for figure in figures),
        median(figure.deltas_per_s for figure in figures),
    )


def _rates(row: ScenarioRow, field: str) -> str:
    """Returns the rates of the servers as text: direct / nginx / gateway."""
    rates = [getattr(row.figures[name], field) for name in _SERVERS if name in row.figures]
    return " / ".join(f"{rate:,.0f}" for rate in rates) if any(rates) else "-"
