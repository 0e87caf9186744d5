"""A line of the log is one JSON object, whatever is in it."""

import json
from contextvars import copy_context
from io import BytesIO
from typing import Any

import pytest

from gateway import logs
from gateway.logs import _render_line, bind_fields, log_request, reset_fields


@pytest.fixture(autouse=True)
def _nothing_is_noted() -> None:
    """What a test before it noted outside any request is still there."""
    reset_fields()


def written(method: str, **fields: Any) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(_render_line(None, method, {"event": "it happened", **fields}))
    return line


def test_a_line_has_a_level_a_time_and_what_was_said() -> None:
    line = written("info", model="m", status=200)
    assert line.pop("timestamp").endswith("Z")
    assert line == {"level": "info", "message": "it happened", "model": "m", "status": 200}


def test_what_is_noted_is_in_every_line_until_something_else_is() -> None:
    reset_fields(client="a", model="m")
    bind_fields(model="n", provider="p")
    line = written("warning", provider="its own")
    assert (line["client"], line["model"], line["provider"]) == ("a", "n", "its own")
    reset_fields(response="resp_1")
    assert written("info").keys() == {"response", "level", "timestamp", "message"}


def test_the_line_of_a_request_is_as_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    written_to = BytesIO()
    monkeypatch.setattr(logs, "_access_stream", written_to)
    reset_fields(client="a")
    log_request("POST", "/v1/responses", 200, 1.5)
    line = json.loads(written_to.getvalue())
    assert line.pop("timestamp").endswith("Z")
    own = {"method": "POST", "path": "/v1/responses", "status": 200, "ms": 1.5}
    assert line == {"client": "a", "level": "info", "message": "request", **own}
    assert written_to.getvalue().count(b"\n") == 1


def test_what_a_copied_context_notes_is_its_own() -> None:
    reset_fields(client="a")
    copy_context().run(bind_fields, model="m")
    assert "model" not in written("info")


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
