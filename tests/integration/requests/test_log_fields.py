"""The table of log fields has what the lines of requests have, and nothing else."""

import ast
from pathlib import Path
from typing import Any

from gateway.log_fields import LOG_FIELDS
from tests.integration.requests import traffic

Json = dict[str, Any]

ROOT = Path(__file__).parents[3]
TIMES = ("first_content_ms", "overhead_ms", "queue_ms")


async def test_the_table_has_the_fields_of_all_lines(tmp_path: Path) -> None:
    tracing = {"endpoint": "http://127.0.0.1:9", "sample": 0}
    async with traffic.serving_site(tmp_path, tracing=tracing) as site:
        for ask in traffic.ALL:
            await ask(site)
    lines = site.read_lines()
    assert {line["message"] for line in lines} == {"request", "turn", "job"}
    fields = {name for line in lines for name in line}
    assert fields - LOG_FIELDS.keys() == set(), "these fields have no row in gateway/log_fields.py"
    assert LOG_FIELDS.keys() - fields == set(), "no request logs these rows of gateway/log_fields.py"
    always = {name for name, row in LOG_FIELDS.items() if row.when == "always"}
    assert [line for line in lines if always - line.keys()] == []
    for line in lines:
        assert all(0 <= line[name] <= line["ms"] + 0.1 for name in TIMES if name in line), line
    text = site.gateway.read_log()
    markers = (traffic.PROMPT, traffic.TEXT, traffic.RESULT, traffic.ARGUMENT, traffic.CACHE_KEY)
    assert [each for each in (*markers, traffic.KEY, traffic.UNKNOWN_KEY) if each in text] == []


def test_all_fields_that_the_code_binds_have_a_row() -> None:
    bound = {
        keyword.arg
        for path in (ROOT / "gateway").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("begin_fields", "bind_fields")
        for keyword in node.keywords
        if keyword.arg is not None
    }
    assert bound - LOG_FIELDS.keys() == set()
    assert "provider" in bound


async def test_a_line_says_who_what_where_how_long_and_how_much(tmp_path: Path) -> None:
    async with traffic.serving_site(tmp_path) as site:
        await traffic.ask_every_api(site)
        await traffic.ask_with_tools(site)
        await traffic.run_jobs(site)
        await traffic.talk(site)
    lines = site.read_lines()
    told = {"first_content_ms", "overhead_ms", "upstream_request_id", "served_by"}
    counts = {"input_tokens": 20, "output_tokens": 8, "cached_tokens": 5, "reasoning_tokens": 3}
    asked = {"client": "team", "model": "one", "provider": "first", "attempts": 1}
    for message in ("request", "turn", "job"):
        line = next(line for line in lines if line["message"] == message and told <= line.keys())
        assert {name: line.get(name) for name in asked | counts} == asked | counts, line
    one, both = (line for line in lines if line.get("attempts", 0) > 1)
    assert [(tried["upstream"], tried["result"]) for tried in one["tried"]] == [("first", "ok")] * 2
    assert both["attempts"] == len(both["tried"]), both
    assert {tried["upstream"] for tried in both["tried"]} == {"gone", "second"}
    failed = next(line for line in lines if line["message"] == "job" and "error" in line)
    assert (failed["error"], failed["level"], failed["attempts"]) == ("upstream_error", "warning", 1)


async def test_the_turns_of_a_connection_share_no_fields(tmp_path: Path) -> None:
    async with traffic.serving_site(tmp_path) as site:
        await traffic.talk(site)
    answered, refused = (line for line in site.read_lines() if line["message"] == "turn")
    (connection,) = (line for line in site.read_lines() if line.get("method") == "WEBSOCKET")
    of_turns = {"model", "provider", "attempts", "input_tokens", "overhead_ms", "upstream_request_id"}
    assert of_turns <= answered.keys()
    assert of_turns & refused.keys() == {"model"}
    assert refused["model"] == "unknown"
    assert of_turns & connection.keys() == set()
