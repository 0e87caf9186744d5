"""The files of the pages: HTML, styles, scripts and the icon. They are part of the package and need no build step."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).with_name("static")

_MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

_POLICY: Final = {
    "default-src": "'none'",
    "style-src": "'self'",
    "script-src": "'self'",
    "connect-src": "'self'",
    "img-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    # No script may make HTML of a text: whatever a model, an upstream or a file contains stays text.
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}
"""The content security policy of every page: files and requests of the page's own origin, nothing inline."""

PAGE_HEADERS: Final = {
    "content-security-policy": "; ".join(f"{name} {sources}" for name, sources in _POLICY.items()),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
}
"""Headers of pages, of their files and of their read models."""


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file, with the headers of its reply."""

    content: bytes
    headers: dict[str, str]

    @property
    def etag(self) -> str:
        return self.headers["etag"]


def read_static_files() -> dict[str, StaticFile]:
    """Returns the files that the server serves, by name."""
    return {path.name: _read_file(path) for path in _FOLDER.iterdir() if path.suffix in _MEDIA_TYPES}


def read_styles(*names: str) -> str:
    """Returns the styles of several files, for a document that has to be complete in one file."""
    return "".join((_FOLDER / name).read_text(encoding="utf-8") for name in names)


def _read_file(path: Path) -> StaticFile:
    content = path.read_bytes()
    headers = {
        **PAGE_HEADERS,
        "content-type": _MEDIA_TYPES[path.suffix],
        # Browsers ask each time, so that a page and its script are always of one version.
        "cache-control": "no-cache",
        "etag": f'"{hashlib.sha256(content).hexdigest()[:32]}"',
    }
    return StaticFile(content, headers)
