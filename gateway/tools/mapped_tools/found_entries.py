"""Reads what a tool of an MCP server found, by the paths of the configuration. Nothing in it is trusted."""

from collections.abc import Callable, Collection, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from dataplane.core import measure_json
from gateway.config.mapped_tools.result_paths import ResultPath
from gateway.config.mapped_tools.settings import MappedResultSettings
from providers.redaction import Redactor
from translation.hosted.bounds import AnswerLimits

if TYPE_CHECKING:
    from mcp_types import CallToolResult

_MAX_READ: Final = 200
"""The most entries of a list that are read."""

_MAX_CHARS: Final[Mapping[str, int]] = {"url": 2000, "title": 400, "text": 20_000, "file_id": 256, "filename": 255}
_IDENTIFIERS: Final = frozenset({"url", "file_id"})
"""What means something else when it is cut. Entries in which it is too long are left out."""

_DISPENSABLE: Final = frozenset({"title", "filename"})
"""The fields that results may do without, even all of them: a page has its URL, and a file its id."""


class MappedToolFailed(Exception):
    """A call has no result that can be used.

    `why` is for the operator, and has no content of the call or the result. `detail` is what the tool itself reports,
    for the model; it is short, and has no credentials.
    """

    def __init__(self, why: str, detail: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.detail = detail


class FoundEntry(NamedTuple):
    """One result of a search. What the configuration has no path for is empty, or None for the score."""

    url: str = ""
    title: str = ""
    text: str = ""
    file_id: str = ""
    filename: str = ""
    score: float | None = None


class EntryLimits(NamedTuple):
    """How many entries are wanted, and which of them."""

    most: int
    accepts: Callable[[FoundEntry], bool]
    needs_all: bool = False
    """Whether a path that finds nothing is a failure although the results are of use without it."""


def read_entries(
    result: "CallToolResult", paths: MappedResultSettings, wanted: EntryLimits, limits: AnswerLimits, redactor: Redactor
) -> list[FoundEntry]:
    """Returns what a search found, without credentials.

    Single entries without what they need are left out. Raises MappedToolFailed if there is no list, and if a path finds
    nothing in any of the entries, or only values of a wrong type.
    """
    place = paths.read_path("items")
    value = parse_result(result, limits)
    entries = value if place is None else place.find(value)
    if not isinstance(entries, list):
        raise MappedToolFailed(f"the result has no list at {'$' if place is None else place.text} (result.items)")
    reader = _EntryReader(paths)
    results: list[FoundEntry] = []
    for each in entries[:_MAX_READ]:
        entry = _bound_entry(reader.read(each), redactor)
        if entry is not None and wanted.accepts(entry):
            results.append(entry)
        if len(results) == wanted.most:
            break
    if entries:
        reader.require_all(but=() if wanted.needs_all else _DISPENSABLE)
    return results


def parse_result(result: "CallToolResult", limits: AnswerLimits) -> Any:
    """Returns a result as JSON: its structured content, or else its text; several texts are a list.

    Raises MappedToolFailed for a text that is no JSON, and for too many values.
    """
    if result.structured_content is not None:
        return result.structured_content
    texts = [each.text for each in result.content if each.type == "text"]
    values = [_parse_text(text, limits) for text in texts]
    if not values:
        raise MappedToolFailed("the result has neither structured content nor text")
    return values[0] if len(values) == 1 else values


def _parse_text(text: str, limits: AnswerLimits) -> Any:
    data = text.encode(errors="surrogatepass")
    values, depth = measure_json(data)
    if values > limits.max_values or depth > limits.max_depth:
        raise MappedToolFailed("the JSON in the result has too many values")
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        raise MappedToolFailed("the result is no JSON") from None


class _EntryReader:
    """Reads entries by the paths of the configuration, and notes which paths find something."""

    def __init__(self, paths: MappedResultSettings) -> None:
        self._paths: Mapping[str, ResultPath] = {
            name: path for name in FoundEntry._fields if (path := paths.read_path(name)) is not None
        }
        self._useful: set[str] = set()
        self._odd: set[str] = set()
        """The fields with values of a wrong type."""

    def read(self, entry: Any) -> Mapping[str, str | float]:
        """Returns the fields of an entry that have values of their types."""
        values: dict[str, str | float] = {}
        for name, path in self._paths.items():
            raw = path.find(entry)
            value = None if raw is None else _READERS[name](raw)
            if value is not None:
                values[name] = value
            elif raw is not None:
                self._odd.add(name)
        self._useful.update(values)
        return values

    def require_all(self, *, but: Collection[str]) -> None:
        """Raises MappedToolFailed if a path found no value of its type in any entry. The fields in `but` may have no
        values at all."""
        for name, path in self._paths.items():
            if name not in self._useful and (name in self._odd or name not in but):
                raise MappedToolFailed(f"no entry of the result has a {name} at {path.text} (result.{name})")


def _bound_entry(values: Mapping[str, Any], redactor: Redactor) -> FoundEntry | None:
    """Returns an entry without credentials and of a limited size; None if it cannot be identified then."""
    bounded: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, str):
            if len(value) > _MAX_CHARS[name] and name in _IDENTIFIERS:
                return None
            value = redactor.redact_beginning(value, _MAX_CHARS[name])
        bounded[name] = value
    return FoundEntry(**bounded)


def _read_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _read_id(value: Any) -> str | None:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else _read_text(value)


def _read_score(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return min(max(float(value), 0.0), 1.0)


_READERS: Final[Mapping[str, Callable[[Any], str | float | None]]] = {
    "url": _read_text,
    "title": _read_text,
    "text": _read_text,
    "file_id": _read_id,
    "filename": _read_text,
    "score": _read_score,
}
"""The names of fields -> their readers, which return None for values of a wrong type."""
