"""Renders the costs of the store and of the start as tables."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.reports.text_table import limit, number, render_table


@dataclass(frozen=True)
class StateRow:
    """One figure on one database.

    `without` is the figure of the same load without the store, if there is such a load. `ratios` divide the
    figure by that without the store, one per round. They are empty if they mean nothing on another machine.
    """

    name: str
    database: str
    unit: str
    without: float | None
    value: float
    target: float | None = None
    ratios: tuple[float, ...] = ()

    @property
    def score(self) -> float:
        """What the store adds to the figure. It is compared with the target."""
        return self.value if self.without is None else self.value - self.without

    @property
    def missed(self) -> bool:
        """Whether there is a target and it was not reached."""
        return self.target is not None and self.score > self.target


def table(rows: Sequence[StateRow]) -> str:
    """Returns the table of the store's figures."""
    return render_table(("state", "database", "unit", "without", "with", "added", "target", ""), [*map(_cells, rows)])


def start_table(rows: Sequence[StateRow]) -> str:
    """Returns the table of the start. `without` is the figure of a server with only FastAPI and uvicorn."""
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
