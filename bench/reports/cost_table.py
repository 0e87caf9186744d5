"""Renders the costs of the store and of the start as tables."""

from collections.abc import Sequence

from bench.reports.text_table import format_limit, format_number, render_table
from bench.scenarios.cost_row import CostRow


def render_store_costs(rows: Sequence[CostRow]) -> str:
    """Returns the table of the store's figures."""
    return render_table(("state", "database", "unit", "without", "with", "added", "target", ""), [*map(_cells, rows)])


def render_start_costs(rows: Sequence[CostRow]) -> str:
    """Returns the table of the start. `without` is the figure of a server with only FastAPI and uvicorn."""
    return render_table(
        ("start", "unit", "bare", "gateway", "added", "ratio"),
        [
            (
                row.name,
                row.unit,
                format_number(row.without),
                format_number(row.value),
                format_number(row.score),
                _ratio(row),
            )
            for row in rows
        ],
    )


def _ratio(row: CostRow) -> str:
    return format_number(row.value / row.without) if row.without else "-"


def _cells(row: CostRow) -> tuple[str, ...]:
    return (
        row.name,
        row.database,
        row.unit,
        format_number(row.without),
        format_number(row.value),
        "-" if row.without is None else format_number(row.score),
        format_limit(row.target),
        "missed" if row.missed else "",
    )
