"""What the store and the start cost, as tables."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.table import limit, number, render_table


@dataclass(frozen=True)
class StateRow:
    """One figure on one database. `without` is that of the same load without the store, where there is such a load;
    `score` is what the target is compared with. `ratios`, where they mean something on another machine too, are the
    figure's to that without the store, in every round."""

    name: str
    database: str
    unit: str
    without: float | None
    value: float
    target: float | None = None
    ratios: tuple[float, ...] = ()

    @property
    def score(self) -> float:
        return self.value if self.without is None else self.value - self.without

    @property
    def missed(self) -> bool:
        return self.target is not None and self.score > self.target


def table(rows: Sequence[StateRow]) -> str:
    return render_table(("state", "database", "unit", "without", "with", "added", "target", ""), [*map(_cells, rows)])


def start_table(rows: Sequence[StateRow]) -> str:
    """`without` is a server that only imports FastAPI and uvicorn."""
    return render_table(
        ("start", "unit", "bare", "gateway", "added", "ratio"),
        [(row.name, row.unit, number(row.without), number(row.value), number(row.score), _ratio(row)) for row in rows],
    )


def _ratio(row: StateRow) -> str:
    return number(row.value / row.without) if row.without else "-"


def _cells(row: StateRow) -> tuple[str, ...]:
    return (
        row.name,
        row.database,
        row.unit,
        number(row.without),
        number(row.value),
        "-" if row.without is None else number(row.score),
        limit(row.target),
        "missed" if row.missed else "",
    )
