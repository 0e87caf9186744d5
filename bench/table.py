"""Tables of figures in plain text."""

from collections.abc import Sequence


def render_table(columns: Sequence[str], lines: Sequence[tuple[str, ...]]) -> str:
    """The lines under their titles."""
    return align_columns([tuple(columns), tuple("-" * len(name) for name in columns), *lines])


def align_columns(lines: Sequence[tuple[str, ...]]) -> str:
    """Cells in columns, the first to the left."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(_aligned(line, widths) for line in lines)


def number(value: float | None) -> str:
    """With as many digits as mean something."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def limit(value: float | None) -> str:
    """A target."""
    return "-" if value is None else f"≤ {number(value)}"


def _aligned(line: tuple[str, ...], widths: list[int]) -> str:
    name, *numbers = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
    return "  ".join([name.strip().ljust(widths[0]), *numbers]).rstrip()
