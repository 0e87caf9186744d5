"""Generates the pages of docs/ that the code determines. `make docs` runs it; a test fails if a page is stale."""

from collections.abc import Callable
from pathlib import Path

from scripts.docs.configuration import render_configuration
from scripts.docs.dialects import render_dialects
from scripts.docs.errors import render_errors
from scripts.docs.metrics import render_operations
from scripts.docs.providers import render_providers
from scripts.docs.routing import render_routing

ROOT = Path(__file__).parents[2]

PAGES: dict[str, Callable[[], str]] = {
    "docs/configuration.md": render_configuration,
    "docs/dialects.md": render_dialects,
    "docs/errors.md": render_errors,
    "docs/operations.md": lambda: render_operations((ROOT / "docs/operations.md").read_text(encoding="utf-8")),
    "docs/providers.md": render_providers,
    "docs/routing.md": render_routing,
}
"""Path relative to the root -> the function that renders the page."""


def list_stale_pages() -> list[str]:
    """Returns the paths of the pages that differ from what the code generates."""
    return [path for path, render in PAGES.items() if not _is_current(ROOT / path, render())]


def write_pages() -> None:
    for path, render in PAGES.items():
        (ROOT / path).write_text(render(), encoding="utf-8")


def _is_current(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text
