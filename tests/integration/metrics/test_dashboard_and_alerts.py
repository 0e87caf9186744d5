"""deploy/grafana and deploy/prometheus: what they name is in `/metrics` of a real server, and promtool accepts them."""

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gateway.metrics.families import ALL_FAMILIES
from tests.faults.upstreams.test_attempts import rejected, shared
from tests.serving import serving
from tests.upstream.faults import ANSWERS, sound
from tests.upstream.script import Hang, Reply
from tests.upstream.server import ScriptedUpstream

ROOT = Path(__file__).parents[3]
DASHBOARD = json.loads((ROOT / "deploy/grafana/gateway.json").read_text())
ALERTS = ROOT / "deploy/prometheus/alerts.yaml"
ALERT_TESTS = ROOT / "deploy/prometheus/alerts_test.yaml"
OPERATIONS = (ROOT / "docs/operations.md").read_text()

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian's package prometheus)")

TARGET_LABELS = {"job", "instance"}
"""The labels that Prometheus adds to each series."""

NAME = re.compile(r"\b(?:gateway|process)_\w+")
MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"([^\"]*)\"")
SELECTOR = re.compile(r"\b((?:gateway|process)_\w+)\s*\{([^}]*)\}")
GROUPING = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")
VARIABLE = re.compile(r"\$\w+|\$\{\w+\}")
TEMPLATE = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")

Series = Mapping[str, set[str]]
"""Name of a series -> the labels that it has."""


def alert_rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def panel_queries() -> list[tuple[str, str]]:
    """Returns the query and the legend of everything that the dashboard shows."""
    return [(target["expr"], target["legendFormat"]) for panel in DASHBOARD["panels"] for target in panel["targets"]]


def find_unknown(expr: str, texts: str, series: Series) -> list[str]:
    """Returns the metrics and labels that a query, and the texts about its result, name without their being there."""
    names = set(NAME.findall(expr))
    unknown = [name for name in sorted(names) if name not in series]
    for name, selector in SELECTOR.findall(expr):
        known = series.get(name, set()) | TARGET_LABELS
        unknown += [f"{name}{{{label}}}" for label, _ in MATCHER.findall(selector) if label not in known]
    of_all = set.intersection(*(series.get(name, set()) for name in names)) | TARGET_LABELS
    grouped = {label.strip() for labels in GROUPING.findall(expr) for label in labels.split(",")}
    unknown += sorted(grouped - of_all)
    # An aggregation keeps no label but those that it groups by.
    is_aggregated = re.search(r"\b(?:sum|min|max)\b", expr) is not None
    kept = grouped - {"le"} if is_aggregated else of_all
    named = set(TEMPLATE.findall(texts)) - {"value"}
    return unknown + sorted(f"{{{{{label}}}}}" for label in named - kept)


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Series:
    """What a server reports that has seen replies, an ejected upstream, a retry, a loss, and a limit."""
    found: dict[str, set[str]] = {}
    for family in parse_text(asyncio.run(fetch_metrics(tmp_path_factory.mktemp("store")))):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


async def fetch_metrics(folder: Path) -> str:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second, ScriptedUpstream() as busy:
        first.script(rejected(401))
        second.script(sound(ANSWERS["responses"]), sound(ANSWERS["responses"]))
        config = shared(first.url, second.url)
        config["models"] = {"m": {**config["models"]["*"], "model": "scripted-model"}, "demo": {"provider": "demo"}}
        config["providers"]["demo"] = {"type": "scripted"}
        config["models"]["busy"] = {"provider": "busy"}
        config["providers"]["busy"] = {"type": "openai_compatible", "base_url": busy.url, "max_in_flight": 1}
        config["routing"] = {"queue_length": 0}
        config["store"] = {"url": f"sqlite+aiosqlite:///{folder}/state.db"}
        busy.script(Reply(headers=ANSWERS["chat"].headers, body=[ANSWERS["chat"].opening, Hang()]))
        with serving(config) as running:
            async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
                for model, stream in (("m", False), ("m", True), ("demo", True)):
                    body = {"model": model, "input": "Hello", "stream": stream, "top_k": 3}
                    reply = await client.post(f"{running.v1}/responses", json=body)
                    assert reply.status_code == 200, reply.text
                body = {"model": "busy", "input": "Hello", "stream": True}
                async with client.stream("POST", f"{running.v1}/responses", json=body) as held:
                    assert held.status_code == 200
                    assert (await client.post(f"{running.v1}/responses", json=body)).status_code == 503
                return (await client.get(f"{running.url}/metrics")).text


def test_every_metric_of_an_alert_is_reported(series: Series) -> None:
    for rule in alert_rules():
        texts = " ".join(rule["annotations"].values())
        assert find_unknown(rule["expr"], texts, series) == [], rule["alert"]
        assert set(NAME.findall(texts)) <= ALL_FAMILIES.keys(), rule["alert"]


def test_every_metric_of_the_dashboard_is_reported(series: Series) -> None:
    for expr, legend in panel_queries():
        assert find_unknown(expr, legend, series) == [], expr
    variables = [each for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
    for variable in variables:
        query = variable["query"]["query"]
        [label] = re.findall(r",\s*(\w+)\)$", query)
        [name] = NAME.findall(query)
        assert label in series[name] | TARGET_LABELS, query
    known = {each["name"] for each in DASHBOARD["templating"]["list"]} | {"__rate_interval"}
    used = {each.strip("${}") for expr, _ in panel_queries() for each in VARIABLE.findall(expr)}
    assert used <= known


@pytest.mark.parametrize(
    ("expr", "texts", "unknown"),
    [
        ("rate(gateway_request_total[5m])", "", ["gateway_request_total"]),
        ('gateway_requests_total{status="500"}', "", ["gateway_requests_total{status}"]),
        ("sum by (owner) (gateway_requests_total)", "", ["owner"]),
        ("sum by (upstream) (gateway_queued)", "", ["upstream"]),
        ("sum by (model) (gateway_queued)", "{{ $labels.upstream }}", ["{{upstream}}"]),
        ("gateway_upstream_state", "{{ $labels.upstream }} {{ $labels.instance }}", []),
    ],
)
def test_names_that_are_not_reported_are_found(expr: str, texts: str, unknown: list[str], series: Series) -> None:
    assert find_unknown(expr, texts, series) == unknown


def test_values_of_labels_are_those_of_the_documentation() -> None:
    metrics = OPERATIONS.partition("\n## Metrics\n")[2].partition("\n## ")[0]
    routing = (ROOT / "docs/routing.md").read_text()
    for expr in [rule["expr"] for rule in alert_rules()] + [expr for expr, _ in panel_queries()]:
        for _, selector in SELECTOR.findall(expr):
            for _, values in MATCHER.findall(selector):
                for value in VARIABLE.sub("", values).split("|"):
                    assert not value or f"`{value}`" in metrics or f"`{value}`" in routing, value


def test_every_alert_is_tested_with_and_without_its_reason() -> None:
    tests = yaml.safe_load(ALERT_TESTS.read_text())["tests"]
    rows = [row for each in tests for row in each["alert_rule_test"]]
    wanted = {rule["alert"] for rule in alert_rules()}
    assert {row["alertname"] for row in rows if row.get("exp_alerts")} == wanted
    assert {row["alertname"] for row in rows if not row.get("exp_alerts")} == wanted
    for rule in alert_rules():
        assert rule["labels"]["severity"] in {"warning", "critical"}


def run_promtool(*arguments: str | Path) -> None:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_prometheus_accepts_the_alerts() -> None:
    run_promtool("check", "rules", ALERTS)


@needs_promtool
def test_the_alerts_fire_for_what_they_are_for() -> None:
    run_promtool("test", "rules", ALERT_TESTS)


@needs_promtool
def test_prometheus_accepts_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": VARIABLE.sub("5m", expr)}
        for number, (expr, _) in enumerate(panel_queries())
    ]
    file = tmp_path / "panels.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    run_promtool("check", "rules", file)
