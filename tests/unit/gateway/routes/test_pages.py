"""GET / and GET /docs, as a browser, curl and a probe get them."""

import html
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
    return httpx.get(url, headers={**BROWSER, **headers}, trust_env=False, timeout=30)


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
    index = httpx.get(gateway.url, trust_env=False)
    assert index.headers["content-type"] == "application/json"
    assert index.json()["status"] == "ready"
    for path in index.json()["links"].values():
        assert fetch(gateway.url + path).status_code == 200


def test_the_links_of_the_page_lead_somewhere(gateway: Gateway) -> None:
    links = re.findall(r'<a href="([^"#]+)"', fetch(gateway.url).text + fetch(f"{gateway.url}/docs").text)
    assert {"docs", "openapi.json", "v1/models", "readyz", "."} <= set(links)
    for link in links:
        assert fetch(f"{gateway.url}/{link}").status_code == 200


def test_the_page_lists_models_with_examples_that_work(gateway: Gateway, tmp_path: Path) -> None:
    text = re.sub("<span data-origin>|</span>", "", fetch(gateway.url).text)
    examples = {id: html.unescape(code) for id, code in re.findall(r'<code id="([^"]+)">(.*?)</code>', text, re.DOTALL)}
    assert len(examples) == 6
    for id, example in examples.items():
        program = ["bash", "-c", example] if id.endswith("curl") else [sys.executable, "-c", example]
        done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "hello" in done.stdout.lower()


def test_the_last_report_of_the_doctor_is_on_the_page_for_models_that_are_served(gateway: Gateway) -> None:
    text = fetch(gateway.url).text
    assert "demo: 0 of 1" in text
    assert "Restart it." in text
    assert "removed" not in text


def test_without_a_key_no_model_is_listed_and_with_a_key_its_own(locked: Gateway) -> None:
    closed = fetch(locked.url)
    assert (closed.status_code, "demo" in closed.text, 'type="password"' in closed.text) == (200, False, True)
    for header in ({"authorization": f"Bearer {KEYS['few']}"}, {"x-api-key": KEYS["few"]}):
        text = fetch(locked.url, **header).text
        assert "<b>demo</b>" in text
        assert "demo: 0 of 1" in text
        assert "other" not in text
        assert "Authorization: Bearer $GATEWAY_KEY" in text
        assert KEYS["few"] not in text
    assert "<b>other</b>" in fetch(locked.url, authorization=f"Bearer {KEYS['all']}").text


def test_an_unknown_key_is_refused_and_a_password_of_a_proxy_is_no_key(locked: Gateway) -> None:
    assert fetch(locked.url, authorization="Bearer wrong").status_code == 401
    assert fetch(locked.url, authorization="Basic dXNlcjpwYXNz").status_code == 200


@pytest.mark.parametrize("host", ["evil.example/$(id)", '"><script>', "a b", "[::1"])
def test_an_invalid_host_is_not_repeated(host: str, gateway: Gateway) -> None:
    text = fetch(gateway.url, host=host).text
    assert html.escape(host) not in text
    assert "http://127.0.0.1:" in text


@pytest.mark.parametrize("host", ["gateway.example", "gateway.example:8443", "[::1]:8080"])
def test_examples_have_the_address_that_the_browser_used(host: str, gateway: Gateway) -> None:
    assert f"<span data-origin>http://{host}</span>/v1/responses" in fetch(gateway.url, host=host).text


def test_a_report_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with serving({**CONFIG, "server": {"doctor_report": str(broken)}}) as gateway:
        assert "broken.json is not a report" in fetch(gateway.url).text
    with serving({**CONFIG, "server": {"doctor_report": None}}) as gateway:
        assert "No model was examined yet" in fetch(gateway.url).text


async def test_an_upstream_that_lists_nothing_delays_the_page_for_two_seconds_at_most() -> None:
    away = {"type": "openai_compatible", "base_url": f"http://127.0.0.1:{closed_port()}/v1", "retries": 0}
    async with ScriptedUpstream() as upstream:
        upstream.script(silence)
        silent = {"type": "openai_compatible", "base_url": upstream.url, "retries": 0}
        providers = {**CONFIG["providers"], "silent": silent, "away": away}
        models = {**CONFIG["models"], "gpt-*": {"provider": "silent"}, "o-*": {"provider": "away"}}
        with serving({"providers": providers, "models": models}) as gateway:
            async with httpx.AsyncClient(trust_env=False, timeout=15) as client:
                text = (await client.get(gateway.url, headers=BROWSER)).text
    assert "<b>demo</b>" in text
    assert "<code>gpt-*</code> (silent)" in text
    assert "<code>o-*</code> (away)" in text


def test_the_api_page_describes_every_endpoint(locked: Gateway) -> None:
    page = fetch(f"{locked.url}/docs")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    paths = httpx.get(f"{locked.url}/openapi.json", trust_env=False).json()["paths"]
    assert page.text.count("<article ") == sum(len(operations) for operations in paths.values())
    assert "<code>previous_response_id</code>" in page.text
    assert "/docs" not in paths


def test_the_page_reports_an_engine_that_is_down(tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(MODEL_FILE.read_bytes()[:2_000_000])
    config = {**CONFIG, "providers": {**CONFIG["providers"], "engine": {"type": "llamacpp", "model": str(cut)}}}
    with serving(config) as gateway:
        text = fetch(gateway.url).text
    assert re.search(r"<dt>Engine engine</dt><dd>(?:down|starting)", text), text
