"""GET / and GET /docs with their files and read models, as a browser, curl and a probe get them."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.pages.saved_report import SavedCheck, SavedResult, merge_results
from providers.demo.files import MODEL_FILE
from tests.serving import Gateway, serving
from tests.upstream import ScriptedUpstream, closed_port, silence

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
KEYS = {"all": "key-of-all", "few": "key-of-few"}
CONFIG: dict[str, Any] = {
    "providers": {"p": {"type": "scripted"}},
    "models": {"demo": {"provider": "p"}, "it's <b>": {"provider": "p"}, "other": {"provider": "p"}},
}
LOCKED = {
    **CONFIG,
    "auth": {"keys": [{"name": "all", "key": KEYS["all"]}, {"name": "few", "key": KEYS["few"], "models": ["demo"]}]},
}


def fetch(url: str, **headers: str) -> httpx.Response:
    return httpx.get(url, headers={**BROWSER, **headers}, trust_env=False, timeout=60)


def fetch_model(gateway: Gateway, name: str = "home", **headers: str) -> dict[str, Any]:
    reply = fetch(f"{gateway.url}/pages/{name}.json", **headers)
    assert reply.status_code == 200
    assert reply.headers["cache-control"] == "no-store"
    model: dict[str, Any] = reply.json()
    return model


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("doctor") / "report.json"
    checks = (SavedCheck(title="Text", verdict="fail", detail="no", advice="Restart it."),)
    facts = {"provider": "p", "date": "2026-11-23T08:00:00Z", "product_version": "1", "config_digest": "abc"}
    merge_results(file, [SavedResult(model=name, checks=checks, **facts) for name in ("demo", "other", "removed")])
    return file


@pytest.fixture(scope="module")
def gateway(report: Path) -> Iterator[Gateway]:
    with serving({**CONFIG, "server": {"doctor_report": str(report)}}) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def locked(report: Path) -> Iterator[Gateway]:
    with serving({**LOCKED, "server": {"doctor_report": str(report)}}) as gateway:
        yield gateway


def test_a_browser_gets_a_page_and_any_other_client_json(gateway: Gateway) -> None:
    page = fetch(gateway.url)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"
    index = httpx.get(gateway.url, trust_env=False, timeout=60)
    assert index.headers["content-type"] == "application/json"
    assert index.json()["status"] == "ready"
    assert "Ollama is running" in index.text
    for path in index.json()["links"].values():
        assert fetch(gateway.url + path).status_code == 200


def test_the_links_of_the_pages_lead_somewhere(gateway: Gateway) -> None:
    links = re.findall(r'(?:href|src)="([^"#]+)"', fetch(gateway.url).text + fetch(f"{gateway.url}/docs").text)
    assert {"docs", "openapi.json", "v1/models", "readyz", ".", "pages/home.js", "pages/api.js"} <= set(links)
    for link in links:
        assert fetch(f"{gateway.url}/{link}").status_code == 200


def test_files_have_the_policy_and_are_sent_once(gateway: Gateway) -> None:
    for path in ("/", "/docs", "/pages/home.js", "/pages/base.css", "/pages/icon.svg"):
        reply = fetch(gateway.url + path)
        assert "default-src 'none'" in reply.headers["content-security-policy"]
        again = fetch(gateway.url + path, **{"if-none-match": reply.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    assert fetch(f"{gateway.url}/pages/home.js").headers["content-type"] == "text/javascript; charset=utf-8"


@pytest.mark.parametrize("name", ["none.js", "__init__.py", "..%2f__init__.py", "home_page.py", ""])
def test_other_files_are_not_served(name: str, gateway: Gateway) -> None:
    assert fetch(f"{gateway.url}/pages/{name}").status_code == 404


def test_the_page_lists_models_with_examples_that_work(gateway: Gateway, tmp_path: Path) -> None:
    models = fetch_model(gateway)["models"]
    examples = [(example["kind"], example["text"]) for model in models for example in model["examples"]]
    assert len(examples) == 6
    for kind, example in examples:
        program = ["bash", "-c", example] if kind == "curl" else [sys.executable, "-c", example]
        done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "hello" in done.stdout.lower()


def test_the_last_report_of_the_doctor_is_on_the_page_for_models_that_are_served(gateway: Gateway) -> None:
    results = fetch_model(gateway)["results"]
    assert [(result["model"], result["score"]) for result in results] == [("demo", "0 of 1"), ("other", "0 of 1")]
    assert results[0]["failures"] == [{"titles": ["Text"], "advice": "Restart it."}]
    assert results[0]["checks"] == [{"title": "Text", "verdict": "fail", "detail": "no", "advice": "Restart it."}]


def test_without_a_key_no_model_is_listed_and_with_a_key_its_own(locked: Gateway) -> None:
    closed = fetch_model(locked)
    assert (closed["models"], closed["results"], closed["config_digest"]) == (None, [], "")
    for header in ({"authorization": f"Bearer {KEYS['few']}"}, {"x-api-key": KEYS["few"]}):
        page = fetch_model(locked, **header)
        assert [model["name"] for model in page["models"]] == ["demo"]
        assert [(result["model"], result["score"]) for result in page["results"]] == [("demo", "0 of 1")]
        text = str(page)
        assert "other" not in text
        assert "Authorization: Bearer $GATEWAY_KEY" in text
        assert KEYS["few"] not in text
    everything = fetch_model(locked, authorization=f"Bearer {KEYS['all']}")
    assert "other" in [model["name"] for model in everything["models"]]


def test_an_unknown_key_is_refused_and_a_password_of_a_proxy_is_no_key(locked: Gateway) -> None:
    page = f"{locked.url}/pages/home.json"
    assert fetch(page, authorization="Bearer wrong").status_code == 401
    assert fetch(page, authorization="Basic dXNlcjpwYXNz").status_code == 200


@pytest.mark.parametrize("host", ["evil.example/$(id)", '"><script>', "a b", "[::1"])
def test_an_invalid_host_is_not_repeated(host: str, locked: Gateway) -> None:
    reply = fetch(f"{locked.url}/pages/home.json", host=host, **{"x-api-key": KEYS["few"]})
    assert reply.status_code == 200
    assert host not in reply.text
    assert "http://127.0.0.1:" in reply.text


@pytest.mark.parametrize("host", ["gateway.example", "gateway.example:8443", "[::1]:8080"])
def test_examples_have_the_address_that_the_browser_used(host: str, locked: Gateway) -> None:
    page = fetch_model(locked, host=host, **{"x-api-key": KEYS["few"]})
    assert page["base_url"] == f"http://{host}"
    assert f"http://{host}/v1/responses" in page["models"][0]["examples"][0]["text"]


def test_a_report_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with serving({**CONFIG, "server": {"doctor_report": str(broken)}}) as gateway:
        assert "broken.json is not a report" in fetch_model(gateway)["report_problem"]
    with serving({**CONFIG, "server": {"doctor_report": None}}) as gateway:
        page = fetch_model(gateway)
        assert (page["results"], page["report_problem"]) == ([], "")


async def test_an_upstream_that_lists_nothing_delays_the_page_for_two_seconds_at_most() -> None:
    away = {"type": "openai_compatible", "base_url": f"http://127.0.0.1:{closed_port()}/v1", "retries": 0}
    async with ScriptedUpstream() as upstream:
        upstream.script(silence)
        silent = {"type": "openai_compatible", "base_url": upstream.url, "retries": 0}
        providers = {**CONFIG["providers"], "silent": silent, "away": away}
        models = {**CONFIG["models"], "gpt-*": {"provider": "silent"}, "o-*": {"provider": "away"}}
        with serving({"providers": providers, "models": models}) as gateway:
            async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
                page = (await client.get(f"{gateway.url}/pages/home.json")).json()
    assert "demo" in [model["name"] for model in page["models"]]
    assert page["patterns"] == [{"name": "gpt-*", "providers": ["silent"]}, {"name": "o-*", "providers": ["away"]}]


def test_all_upstreams_of_a_name_are_on_the_page_and_one_that_is_reachable_is_enough() -> None:
    away = {"type": "openai_compatible", "base_url": f"http://127.0.0.1:{closed_port()}/v1", "retries": 0}
    providers = {**CONFIG["providers"], "away": away, "gone": away, "drained": {"type": "scripted"}}
    names = {
        "alone": ["away"],
        "both": ["away", "p"],
        "neither": ["away", "gone"],
        "all-*": ["gone", "p"],
    }
    models: dict[str, Any] = {
        name: {"upstreams": [{"provider": each} for each in rows]} for name, rows in names.items()
    }
    drained: list[dict[str, Any]] = [{"provider": "away"}, {"provider": "drained", "weight": 0}]
    models["drained"] = {"upstreams": drained}
    with serving({"providers": providers, "models": models}) as gateway:
        page = fetch_model(gateway)
    found = {model["name"]: (model["providers"], bool(model["problem"])) for model in page["models"]}
    assert {name: found[name] for name in (*names, "drained") if name in found} == {
        "alone": (["away"], True),
        "both": (["away", "p"], False),
        "neither": (["away", "gone"], True),
        "drained": (["away"], True),
    }
    assert page["patterns"] == [{"name": "all-*", "providers": ["gone", "p"]}]
    conditions = {upstream["name"]: upstream["is_usable"] for upstream in page["upstreams"]}
    assert conditions == {"away": False, "p": True, "gone": False, "drained": True}


def test_the_api_page_describes_every_endpoint(locked: Gateway) -> None:
    page = fetch_model(locked, "api")
    paths = httpx.get(f"{locked.url}/openapi.json", trust_env=False, timeout=60).json()["paths"]
    shown = [operation for group in page["groups"] for operation in group["operations"]]
    assert len(shown) == sum(len(operations) for operations in paths.values())
    [create] = [operation for operation in shown if operation["id"] == "post-v1-responses"]
    assert "previous_response_id" in [field["name"] for field in create["fields"]]
    assert not {"/docs", "/pages/home.json"} & paths.keys()


def test_the_page_reports_an_engine_that_is_down(tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(MODEL_FILE.read_bytes()[:2_000_000])
    config = {**CONFIG, "providers": {**CONFIG["providers"], "engine": {"type": "llamacpp", "model": str(cut)}}}
    with serving(config) as gateway:
        [note] = fetch_model(gateway)["notes"]
    assert note["name"] == "Engine engine"
    assert note["text"].startswith(("down", "starting"))
