"""What the store costs, as a table."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class StateRow:
    """One figure on one database. `without` is that of the same load without the store, where there is such a load;
    `score` is what the target is compared with."""

    name: str
    database: str
    unit: str
    without: float | None
    value: float
    target: float | None = None

    @property
    def score(self) -> float:
        return self.value if self.without is None else self.value - self.without

    @property
    def missed(self) -> bool:
        return self.target is not None and self.score > self.target


def table(rows: Sequence[StateRow]) -> str:
    return aligned([_COLUMNS, tuple("-" * len(name) for name in _COLUMNS), *map(_cells, rows)])


def aligned(lines: Sequence[tuple[str, ...]]) -> str:
    """Cells in columns, the first to the left."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(_aligned(line, widths) for line in lines)


def number(value: float | None) -> str:
    """With as many digits as mean something."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


_COLUMNS = ("state", "database", "unit", "without", "with", "added", "target", "")


def _cells(row: StateRow) -> tuple[str, ...]:
    return (
        row.name,
        row.database,
        row.unit,
        number(row.without),
        number(row.value),
        "-" if row.without is None else number(row.score),
        "-" if row.target is None else f"≤ {number(row.target)}",
        "missed" if row.missed else "",
    )


def _aligned(line: tuple[str, ...], widths: list[int]) -> str:
    name, *numbers = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
    return "  ".join([name.strip().ljust(widths[0]), *numbers]).rstrip()
