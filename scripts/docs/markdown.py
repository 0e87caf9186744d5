"""Renders the Markdown of generated pages."""

from collections.abc import Iterable, Sequence


def render_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table. Cells may contain Markdown; pipes in them are escaped."""
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def render_code(values: Iterable[object]) -> str:
    """Returns the values as code, separated by commas."""
    return ", ".join(f"`{value}`" for value in values)


def join_blocks(*blocks: str) -> str:
    """Returns a page of blocks, such as paragraphs and tables."""
    return "\n\n".join(blocks) + "\n"
