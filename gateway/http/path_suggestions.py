"""Suggests the path that a client probably meant when it requested an unknown one."""

import re
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import Final

_SUGGESTED_PATHS: Final = {
    "/chat": "/v1/chat/completions",
    "/health": "/healthz",
    "/health/live": "/healthz",
    "/live": "/healthz",
    "/livez": "/healthz",
    "/ping": "/healthz",
    "/health/ready": "/readyz",
    "/ready": "/readyz",
    "/readiness": "/readyz",
    "/api/generate": "/generate",
    "/api/tags": "/v1/models",
    "/swagger": "/docs",
    "/redoc": "/docs",
    "/": "/v1/models",
}
"""Paths of other servers -> the path of the same purpose here. A leading /v1 is removed before the lookup."""

_PREFIX: Final = re.compile(r"^(?:/(?:api|openai|v1))+(?=/|$)", re.IGNORECASE)
"""Matches the prefixes of other servers' base URLs, and a `/v1` that clients append to a base URL with `/v1`."""

_MIN_SIMILARITY: Final = 0.9
"""A typing error in a path of some ten characters. Paths of different purposes are less similar."""

_MAX_PATH_CHARS: Final = 200
"""Longer paths are not compared, because comparing takes quadratic time."""


def suggest_path(path: str, has_route: Callable[[str], bool], known_paths: Sequence[str]) -> str | None:
    """Returns the path that a request for `path` probably meant, or None if there is no likely one.

    `has_route` reports whether the server has a path; it is true for paths with ids, too. `known_paths` are its paths
    without parameters, to which a misspelt path is compared.
    """
    if len(path) > _MAX_PATH_CHARS:
        return None
    for candidate in _build_candidates(path):
        if candidate != path and has_route(candidate):
            return candidate
    matches = get_close_matches(path.lower(), known_paths, n=1, cutoff=_MIN_SIMILARITY)
    return matches[0] if matches else None


def _build_candidates(path: str) -> Iterator[str]:
    clean = re.sub(r"/{2,}", "/", path).rstrip("/") or "/"
    rest = _PREFIX.sub("", clean) or "/"
    for short in dict.fromkeys((clean, rest)):
        if suggested := _SUGGESTED_PATHS.get(short.lower()):
            yield suggested
    yield clean
    for short in dict.fromkeys((rest, rest.lower())):
        yield f"/v1{short}"
        yield short
