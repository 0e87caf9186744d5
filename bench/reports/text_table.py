"""Renders tables of figures as plain text."""

from collections.abc import Sequence


def render_table(columns: Sequence[str], lines: Sequence[tuple[str, ...]]) -> str:
    """Returns the table with a line of titles."""
    return align_columns([tuple(columns), tuple("-" * len(name) for name in columns), *lines])


def align_columns(lines: Sequence[tuple[str, ...]]) -> str:
    """Returns the lines with aligned columns: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(_align_line(line, widths) for line in lines)


def format_number(value: float | None) -> str:
    """Returns a figure with two or three significant digits; a dash for None."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def format_limit(value: float | None) -> str:
    """Returns a target as text; a dash for None."""
    return "-" if value is None else f"≤ {format_number(value)}"


def _align_line(line: tuple[str, ...], widths: list[int]) -> str:
    name, *numbers = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
    return "  ".join([name.strip().ljust(widths[0]), *numbers]).rstrip()
