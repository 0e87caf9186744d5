"""gateway/doctor/mcp_servers.py: the doctor's checks of MCP servers."""

import sys

import orjson
import pytest
import structlog

from gateway.config.settings import parse_settings
from gateway.doctor import mcp_servers
from gateway.doctor.part_diagnosis import PartDiagnosis, render_parts
from gateway.doctor.report_origin import describe_origin
from gateway.doctor.text_report import render_json
from tests.upstream import closed_port

NOTES = {"stdio": [sys.executable, "-m", "gateway.demo_notes"]}
SERVERS = {
    "good": {**NOTES, "probe": {"tool": "search", "arguments": {"text": "x"}}},
    "unsafe": {**NOTES, "probe": {"tool": "search"}, "allow": ["search"]},
    "empty": {**NOTES, "allow": ["nothing"]},
    "dead": {"url": f"http://127.0.0.1:{closed_port()}/mcp"},
}
SETTINGS = parse_settings({"tools": {"mcp": {"servers": SERVERS}}}, environ={})


@pytest.fixture(scope="module")
def diagnoses() -> list[PartDiagnosis]:
    with structlog.testing.capture_logs():
        return mcp_servers.examine_servers(SETTINGS)


def test_each_server_is_listed_checked_and_called_if_its_call_is_marked(diagnoses: list[PartDiagnosis]) -> None:
    assert [(each.label, [finding.verdict for finding in each.findings]) for each in diagnoses] == [
        ("good", ["pass", "pass", "pass"]),
        ("unsafe", ["pass", "pass", "fail"]),
        ("empty", ["fail", "pass", "skipped"]),
        ("dead", ["fail", "skipped", "skipped"]),
    ]
    assert [each.failed for each in diagnoses] == [False, True, True, True]


def test_the_report_has_them_as_text_and_as_json(diagnoses: list[PartDiagnosis]) -> None:
    lines = render_parts(diagnoses).splitlines()
    assert lines[0] == "MCP server good"
    assert lines[1].startswith("  pass list: 3 tools (")
    assert "  fail call: search: the arguments do not fit the tool's schema" in lines
    assert "  skipped call: the server has no `probe`, a call that has no effects" in lines
    assert "  fail list: the server cannot be reached" in lines
    report = orjson.loads(render_json([], describe_origin(SETTINGS), [each.as_json() for each in diagnoses]))
    assert (report["ok"], report["mcp_servers"][0]["ok"]) == (False, True)
    assert report["mcp_servers"][3]["checks"][0]["detail"] == "the server cannot be reached"


def test_without_servers_nothing_is_examined() -> None:
    assert mcp_servers.examine_servers(parse_settings({}, environ={})) == []
