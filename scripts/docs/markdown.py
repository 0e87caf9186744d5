"""The little Markdown that generated pages need."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells may hold Markdown, and pipes in them are escaped."""
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(words: Iterable[object]) -> str:
    """The words as code, with commas between."""
    return ", ".join(f"`{word}`" for word in words)


def page(*blocks: str) -> str:
    return "\n\n".join(blocks) + "\n"
