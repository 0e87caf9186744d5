"""Reads what a tool of an MCP server found, by the paths of the configuration. Nothing in it is trusted."""

import unicodedata
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

_MAX_NAME_READ: Final = 16_384
"""The most characters of a name that are examined. Credentials are removed before it is cut to its final length."""

_DIRECTION_CONTROLS: Final = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})
"""The classes of the characters that show a text in another order than it has."""


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
    texts = [each.text.encode(errors="surrogatepass") for each in result.content if each.type == "text"]
    if not texts:
        raise MappedToolFailed("the result has neither structured content nor text")
    measured = [measure_json(text) for text in texts]
    if sum(values for values, _ in measured) > limits.max_values or any(
        depth > limits.max_depth for _, depth in measured
    ):
        raise MappedToolFailed("the JSON in the result has too many values")
    try:
        values = [orjson.loads(text) for text in texts]
    except orjson.JSONDecodeError:
        raise MappedToolFailed("the result is no JSON") from None
    return values[0] if len(values) == 1 else values


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


def _read_name(value: Any) -> str | None:
    """Returns a name as one line without characters that show it as another, such as those that turn the direction."""
    if not isinstance(value, str):
        return None
    line = " ".join(value[:_MAX_NAME_READ].split())
    return "".join(each for each in line if not _is_hidden(each)).strip()


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) == "Cc" or unicodedata.bidirectional(character) in _DIRECTION_CONTROLS


def _read_id(value: Any) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    text = _read_text(value)
    return "" if text is not None and not text.strip() else text


def _read_score(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not isfinite(value):
        return None
    # A whole number may have more digits than a float can hold, so it is bounded first.
    return float(max(0, min(value, 1)))


_READERS: Final[Mapping[str, Callable[[Any], str | float | None]]] = {
    "url": _read_text,
    "title": _read_text,
    "text": _read_text,
    "file_id": _read_id,
    "filename": _read_name,
    "score": _read_score,
}
"""The names of fields -> their readers, which return None for values of a wrong type."""
