"""Log lines at a terminal: one event per line, without control sequences."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from gateway.terminal_text import render_text_line
from tests.serving import command

WHEN = datetime(2026, 11, 23, 9, 4, 23, tzinfo=UTC)
TIME = r"\d\d:\d\d:\d\d"


def test_a_request_is_one_phrase_and_its_fields() -> None:
    line = render_text_line(
        {
            "client": "team-a",
            "model": "qwen3",
            "method": "POST",
            "path": "/v1/responses",
            "status": 200,
            "ms": 812.4,
            "level": "info",
            "timestamp": WHEN,
            "message": "request",
        }
    )
    assert re.fullmatch(f"{TIME} INFO    POST /v1/responses 200 in 812.4 ms client=team-a model=qwen3", line)


@pytest.mark.parametrize(
    ("value", "rendered"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("killed by SIGKILL", '"killed by SIGKILL"'),
        ("", '""'),
        ("naïve café", '"naïve café"'),
        ("\x1b[2Jgone", '"\\u001b[2Jgone"'),
        ("a\nb", '"a\\nb"'),
        ("\x9b2J", '"\\u009b2J"'),
        (True, "true"),
        (None, "null"),
        (["a", "b"], '["a", "b"]'),
    ],
)
def test_values_are_quoted_where_they_need_it(value: object, rendered: str) -> None:
    line = render_text_line({"reason": value, "level": "warning", "timestamp": WHEN, "message": "engine_down"})
    assert re.fullmatch(f"{TIME} WARNING engine_down reason=" + re.escape(rendered), line)


def test_a_traceback_follows_on_its_own_lines() -> None:
    fields = {"exception": "Traceback:\n  File \x1b[2J", "level": "error", "timestamp": WHEN, "message": "failed"}
    first, *rest = render_text_line(fields).splitlines()
    assert first.endswith("ERROR   failed")
    assert rest == ["Traceback:", "  File \\x1b[2J"]


def test_times_of_libraries_are_text_already() -> None:
    assert re.match(TIME, render_text_line({"timestamp": "2026-11-23T09:04:23Z", "message": "x"}))


CONFIG = {
    "store": {"url": None},
    "providers": {"gone": {"type": "openai_compatible", "base_url": "http://127.0.0.1:9/v1", "retries": 0}},
    "models": {"gone": {"provider": "gone"}},
}


def test_lines_are_json_in_a_file_and_text_where_configured(tmp_path: Path) -> None:
    for line_format in ("auto", "text"):
        folder = tmp_path / line_format
        folder.mkdir()
        with command({**CONFIG, "log": {"format": line_format}}, folder, forked=True) as server:
            ask(server.v1)
        (line,) = [line for line in server.read_log().splitlines() if "/v1/responses" in line]
        if line_format == "auto":
            fields = json.loads(line)
            assert (fields["level"], fields["upstream"]) == ("warning", "http://127.0.0.1:9")
        else:
            assert re.match(f"{TIME} WARNING POST /v1/responses 502 in [0-9.]+ ms ", line)
            assert " upstream=http://127.0.0.1:9 " in f"{line} "


def test_the_level_hides_lines_below_it(tmp_path: Path) -> None:
    with command({**CONFIG, "log": {"level": "warning"}}, tmp_path, forked=True) as server:
        ask(server.v1, "no-such-model")
        ask(server.v1)
    lines = server.read_log_lines()
    assert [line["status"] for line in lines if line["message"] == "request"] == [502]


def ask(v1: str, model: str = "gone") -> None:
    httpx.post(f"{v1}/responses", json={"model": model, "input": "Hi"}, verify=False, trust_env=False, timeout=60)
