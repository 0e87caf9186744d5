"""A line of the log is one JSON object, whatever is in it."""

import json
from typing import Any

import pytest

from gateway.logs import _line


def written(method: str, **fields: Any) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(_line(None, method, {"event": "it happened", **fields}))
    return line


def test_a_line_has_a_level_a_time_and_what_was_said() -> None:
    line = written("info", model="m", status=200)
    assert line.pop("timestamp").endswith("Z")
    assert line == {"level": "info", "message": "it happened", "model": "m", "status": 200}


def test_the_line_of_an_exception_says_where_it_came_from() -> None:
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        line = written("error", exc_info=True)
    assert line["level"] == "error"
    assert "test_logs.py" in line["exception"]
    assert "exc_info" not in line


@pytest.mark.parametrize(
    ("value", "expected"),
    [("half of \ud83d", "half of \ud83d"), (2**70, 2**70), ({1: 2, (): 3}, {"1": 2})],
    ids=["half a surrogate", "a number", "keys"],
)
def test_what_is_no_plain_json_is_written_all_the_same(value: object, expected: object) -> None:
    line = written("info", value=value)
    assert (line["level"], line["value"]) == ("info", expected)
