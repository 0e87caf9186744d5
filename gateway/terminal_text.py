"""Renders text for people at a terminal: tables, and lines of the log."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

_LEVEL_WIDTH: Final = 7

_ACCESS_FIELDS: Final = ("method", "path", "status", "ms")
"""The fields of an access line that are rendered as one phrase."""

_PLAIN_EXTRA: Final = frozenset("-_./:@*?+,")
"""Characters besides letters and digits that need no quotes."""


def render_text_line(fields: Mapping[str, Any]) -> str:
    """Returns a line of the log as text, without a line end:
    `09:04:23 INFO  POST /v1/responses 200 in 812.4 ms client=team-a`.

    `fields` are the same as in the JSON line. A traceback follows on separate lines. Control characters in values are
    escaped, so that a request cannot write to the terminal.
    """
    rest = dict(fields)
    time, level, message = rest.pop("timestamp", None), rest.pop("level", "info"), rest.pop("message", "")
    traceback = rest.pop("exception", None)
    if all(name in rest for name in _ACCESS_FIELDS):
        method, path, status, ms = (rest.pop(name) for name in _ACCESS_FIELDS)
        message = f"{method} {_render_value(path)} {status} in {ms} ms"
    words = [_render_time(time), str(level).upper().ljust(_LEVEL_WIDTH), _escape(str(message))]
    words += [f"{name}={_render_value(value)}" for name, value in rest.items()]
    lines = [" ".join(words)]
    if traceback:
        lines += [_escape(line) for line in str(traceback).splitlines()]
    return "\n".join(lines)


def _render_time(time: Any) -> str:
    """Returns the local time of day. The timestamps of libraries are text already."""
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    return time.astimezone().strftime("%H:%M:%S") if isinstance(time, datetime) else "--:--:--"


def _render_value(value: Any) -> str:
    if isinstance(value, str):
        is_plain = bool(value) and all(character.isalnum() or character in _PLAIN_EXTRA for character in value)
        return value if is_plain else json.dumps(value, ensure_ascii=not value.isprintable())
    if isinstance(value, bool | int | float) or value is None:
        return json.dumps(value)
    return json.dumps(value, default=repr)


def _escape(text: str) -> str:
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def format_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns one line per row. Every column but the last is padded to its widest cell."""
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
