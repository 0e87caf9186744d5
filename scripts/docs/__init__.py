"""Writes the pages of docs/ that can be read off the code. `make docs` runs it; a test fails when a page is stale."""

from collections.abc import Callable
from pathlib import Path

from scripts.docs.configuration import configuration
from scripts.docs.dialects import dialects
from scripts.docs.errors import errors
from scripts.docs.providers import providers

ROOT = Path(__file__).parents[2]

PAGES: dict[str, Callable[[], str]] = {
    "docs/configuration.md": configuration,
    "docs/dialects.md": dialects,
    "docs/errors.md": errors,
    "docs/providers.md": providers,
}
"""Path below the root -> what writes the page."""


def stale_pages() -> list[str]:
    """The pages that no longer say what the code says."""
    return [path for path, write in PAGES.items() if not _says(ROOT / path, write())]


def write_pages() -> None:
    for path, write in PAGES.items():
        (ROOT / path).write_text(write(), encoding="utf-8")


def _says(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text
