"""Progress reports reach their call, whatever a server sends."""

from typing import Any

import pytest

from gateway.tools.mcp import request_record
from gateway.tools.mcp.request_record import ProgressWatchers


def test_a_report_reaches_the_call_that_is_watched_and_no_other() -> None:
    watchers = ProgressWatchers()
    first: list[Any] = []
    second: list[Any] = []
    with (
        watchers.watch(lambda *report: first.append(report)) as one,
        watchers.watch(lambda *report: second.append(report)) as two,
    ):
        assert one != two
        watchers.report({"progressToken": one, "progress": 1, "total": 4.5, "message": "half"})
        watchers.report({"progressToken": two, "progress": 2})
    watchers.report({"progressToken": one, "progress": 3})
    assert (first, second) == ([(1, 4.5, "half")], [(2, None, None)])


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (b"", "o"),
        (b"\\", "o"),
        (b"\\u00e", "o"),
        ("é".encode()[:1], "o"),
        ("€".encode()[:2], "o"),
        (b"\\n\\u00e9", "ox\n"),
        (b"\\ud83d", ""),
    ],
)
def test_the_beginning_of_a_text_is_read_wherever_it_is_cut(end: bytes, expected: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(request_record, "_LEFT_OUT_CHARS", 1)
    body = b'{"result": {"content": [{"type": "text", "text": "ox' + end
    assert request_record.read_beginning(body) == expected


def test_an_answer_without_a_text_has_no_beginning() -> None:
    assert request_record.read_beginning(b'{"result": {"structuredContent": {"rows": [1, 2') == ""


@pytest.mark.parametrize(
    "params",
    [
        None,
        [1],
        {},
        {"progressToken": ["progress-1"], "progress": 1},
        {"progressToken": 1, "progress": 1},
        {"progressToken": "progress-1"},
        {"progressToken": "progress-1", "progress": "1"},
        {"progressToken": "progress-1", "progress": True},
    ],
)
def test_a_report_that_is_malformed_is_dropped(params: Any) -> None:
    watchers = ProgressWatchers()
    reports: list[Any] = []
    with watchers.watch(lambda *report: reports.append(report)):
        watchers.report(params)
        assert reports == []
        watchers.report({"progressToken": "progress-1", "progress": 1, "total": "x", "message": 5})
    assert reports == [(1, None, None)]
