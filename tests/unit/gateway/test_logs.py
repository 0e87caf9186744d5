"""A line of the log is one JSON object, whatever its values."""

import asyncio
import json
from collections.abc import Callable
from contextvars import copy_context
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from gateway import logs
from gateway.errors import StoreUnavailable, TurnFailed, UnknownModel
from gateway.http.error_forms import bind_failure, name_upstreams
from gateway.log_writer import LogWriter
from gateway.logs import (
    _render_line,
    begin_fields,
    bind_fields,
    bind_losses,
    bind_usage,
    clear_fields,
    copy_fields,
    log_round_faults,
    read_bound_fields,
    render_request,
    write_request_lines,
)
from providers.errors import (
    ProviderError,
    UpstreamBroken,
    UpstreamRateLimited,
    UpstreamRejected,
    UpstreamUnreachable,
)
from translation.representation.events import Failed, Usage
from translation.representation.loss import Loss


@pytest.fixture(autouse=True)
def _nothing_is_noted() -> None:
    """Clears fields that an earlier test bound outside of a request."""
    clear_fields()


def written(method: str, **fields: Any) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(_render_line(None, method, {"event": "it happened", **fields}))
    return line


def write_request(status: int) -> None:
    line = render_request("POST", "/v1/responses", status, 1.5, read_bound_fields(), datetime.now(UTC))
    write_request_lines([line])


def test_a_line_has_a_level_a_time_and_a_message() -> None:
    line = written("info", model="m", status=200)
    assert line.pop("timestamp").endswith("Z")
    assert line == {"level": "info", "message": "it happened", "model": "m", "status": 200}


def test_bound_fields_are_in_every_line_until_they_change() -> None:
    begin_fields(client="a", model="m")
    bind_fields(model="n", provider="p")
    line = written("warning", provider="its own")
    assert (line["client"], line["model"], line["provider"]) == ("a", "n", "its own")
    begin_fields(response="resp_1")
    assert written("info").keys() == {"response", "level", "timestamp", "message"}


def test_the_line_of_a_request_has_the_beginning_of_a_long_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_access_stream", LogWriter(BytesIO()))
    line = json.loads(render_request("GET", f"/{'a' * 60_000}", 404, 1.5, {}, datetime.now(UTC)))
    assert line["path"] == f"/{'a' * 199}"


def test_the_line_of_a_request_is_as_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    written_to = BytesIO()
    monkeypatch.setattr(logs, "_access_stream", LogWriter(written_to))
    begin_fields(client="a")
    write_request(200)
    line = json.loads(written_to.getvalue())
    assert line.pop("timestamp").endswith("Z")
    own = {"method": "POST", "path": "/v1/responses", "status": 200, "ms": 1.5}
    assert line == {"client": "a", "level": "info", "message": "request", **own}
    assert written_to.getvalue().count(b"\n") == 1


@pytest.mark.parametrize(
    ("status", "failure", "level"),
    [
        (200, None, "info"),
        (404, UnknownModel("qwen4", "there is none"), "info"),
        (429, UpstreamRateLimited("slow down", provider="local", status=429), "warning"),
        (400, UpstreamRejected("no", provider="local", status=400), "warning"),
        (200, TurnFailed(Failed("rate_limit_exceeded", "slow down")), "warning"),
        (502, UpstreamUnreachable("it cannot be reached", provider="local"), "warning"),
        (200, UpstreamBroken("it broke off", provider="local"), "warning"),
        (500, None, "warning"),
    ],
    ids=[
        "a success",
        "a client's mistake",
        "a limit",
        "a rejection",
        "a stream's error",
        "an upstream's failure",
        "a stream that broke off",
        "a bug",
    ],
)
def test_a_failure_of_the_server_or_an_upstream_is_a_warning_and_names_the_upstream(
    status: int, failure: Exception | None, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_to = BytesIO()
    monkeypatch.setattr(logs, "_access_stream", LogWriter(written_to))
    name_upstreams({"local": "http://127.0.0.1:8000"})
    if failure is not None:
        bind_failure(failure)
    write_request(status)
    line = json.loads(written_to.getvalue())
    assert line["level"] == level
    assert line.get("upstream") == ("http://127.0.0.1:8000" if isinstance(failure, ProviderError) else None)


def test_losses_are_named_once_each_up_to_a_limit() -> None:
    bind_losses(
        [Loss("seed", "dropped"), Loss("top_p", "dropped"), Loss("seed", "ignored"), Loss("x" * 999, "dropped")]
    )
    assert read_bound_fields()["losses"] == ["seed", "top_p", "x" * 200]
    bind_losses(Loss(f"key_{number}", "dropped") for number in range(100_000))
    assert read_bound_fields()["losses"] == [f"key_{number}" for number in range(50)]


def test_an_unknown_model_is_in_the_line() -> None:
    bind_failure(UnknownModel("q" * 999, "there is none"))
    assert read_bound_fields()["model"] == "q" * 200


def test_a_status_of_the_upstream_is_in_the_line() -> None:
    bind_failure(UpstreamRejected("no", provider="local", status=500))
    assert read_bound_fields()["upstream_status"] == 500


def test_fields_that_a_task_or_thread_of_a_request_binds_are_in_its_line() -> None:
    begin_fields(client="a")
    copy_context().run(bind_fields, model="m")
    assert written("info")["model"] == "m"


@pytest.mark.parametrize("separate", [copy_fields, begin_fields, clear_fields])
def test_fields_of_a_context_that_was_separated_stay_there(separate: Callable[[], None]) -> None:
    def bind() -> None:
        separate()
        bind_fields(model="m")
        assert written("info")["model"] == "m"

    begin_fields(client="a")
    copy_context().run(bind)
    assert "model" not in written("info")
    assert written("info")["client"] == "a"


def test_fields_bound_outside_of_a_request_stay_in_their_context() -> None:
    copy_context().run(bind_fields, model="m")
    assert "model" not in written("info")


def test_the_line_of_an_exception_has_its_traceback() -> None:
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
def test_values_that_are_no_json_are_written_all_the_same(value: object, expected: object) -> None:
    line = written("info", value=value)
    assert (line["level"], line["value"]) == ("info", expected)


def test_token_counts_that_cannot_be_counts_are_logged_as_they_came() -> None:
    def bind() -> dict[str, object]:
        bind_usage(Usage(output=3, raw={"prompt_tokens": -5, "completion_tokens": 3}))
        return {**read_bound_fields()}

    assert copy_context().run(bind) == {"output_tokens": 3, "impossible_tokens": {"prompt_tokens": "-5"}}


@pytest.mark.parametrize(
    ("error", "events"), [(ValueError("x"), ["round_failed"]), (StoreUnavailable("x"), [])], ids=["a bug", "an outage"]
)
def test_a_round_that_fails_is_logged_and_its_loop_goes_on(error: Exception, events: list[str]) -> None:
    with capture_logs() as lines, log_round_faults(structlog.get_logger(), "round_failed"):
        raise error
    assert [line["event"] for line in lines] == events
    assert all(line["log_level"] == "error" and line["exc_info"] for line in lines)


def test_a_round_that_is_cancelled_ends_its_loop() -> None:
    with pytest.raises(asyncio.CancelledError), log_round_faults(structlog.get_logger(), "round_failed"):
        raise asyncio.CancelledError
