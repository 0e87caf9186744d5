"""The home page in a real browser shows what the server does: which upstream fails, and where time was spent."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.browser import Tab, find_chromium
from tests.integration.pages.test_in_chromium import MEASURE_CONTRAST, MEASURE_OVERFLOW, open_page
from tests.serving import Gateway, serving
from tests.upstream.server import closed_port

CHROMIUM = find_chromium()
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine; $CHROMIUM may name one"),
    pytest.mark.timeout(180),
]
AWAY = {"type": "openai_compatible", "base_url": f"http://127.0.0.1:{closed_port()}", "retries": 0}
MARKUP = "<img src=x onerror=alert(1)>"
CONFIG: dict[str, Any] = {
    "providers": {"gpu-a": {"type": "scripted"}, "gpu-b": AWAY},
    "models": {
        "qwen3": {"upstreams": [{"provider": "gpu-b"}, {"provider": "gpu-a", "tier": 1}]},
        "old": {"provider": "gpu-b"},
        MARKUP: {"upstreams": [{"provider": "gpu-a"}, {"provider": "gpu-a", "model": "two"}]},
    },
}
ADMIN = "key-of-an-administrator"
TEAM = "key-of-a-team-01234"
KEYS = {"keys": [{"name": "root", "key": ADMIN, "admin": True}, {"name": "team", "key": TEAM}]}
READ_REQUESTS = """[...document.querySelectorAll("#requests tbody tr")].map((row) =>
  [...row.cells].map((cell) => cell.textContent.trim()))"""


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with serving(CONFIG) as gateway:
        for model, status in (("qwen3", 200), ("old", 502), (MARKUP, 200)):
            assert send(gateway, model) == status
        yield gateway


def send(gateway: Gateway, model: str, **headers: str) -> int:
    body = {"model": model, "input": "Hello", "stream": True}
    return httpx.post(f"{gateway.v1}/responses", json=body, headers=headers, trust_env=False, timeout=60).status_code


def read_row(tab: Tab, section: str, name: str) -> list[str]:
    """The cells of the row with this name."""
    cells: list[str] = tab.evaluate(f"""(() => {{
      const rows = [...document.querySelectorAll("#{section} tbody tr")];
      const row = rows.find((each) => each.querySelector("th").textContent === {json.dumps(name)});
      return [...row.cells].map((cell) => cell.textContent.trim());
    }})()""")
    return cells


@pytest.mark.parametrize("width", [1280, 375])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_activity_fits_and_is_readable(width: int, dark: bool, tab: Tab, gateway: Gateway) -> None:
    open_page(tab, gateway.url + "/", width=width, dark=dark)
    tab.wait_until("document.querySelector('#requests tbody tr')")
    assert tab.evaluate(MEASURE_OVERFLOW) <= 0
    assert tab.evaluate(MEASURE_CONTRAST) >= 4.5
    assert tab.problems == []
    assert tab.evaluate("document.body.textContent.includes('undefined')") is False
    assert all(request.startswith(f"{gateway.url}/") for request in tab.requests)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_id_of_a_request_is_seen_whole_in_a_usual_window(dark: bool, tab: Tab, gateway: Gateway) -> None:
    open_page(tab, gateway.url + "/", width=1280, dark=dark)
    tab.wait_until("document.querySelectorAll('#requests tbody tr').length >= 3")
    seen = tab.evaluate("""(() => {
      const window = document.querySelector("#requests .scroll").getBoundingClientRect();
      return [...document.querySelectorAll("#requests tbody code")].map((id) => {
        const range = document.createRange();
        range.selectNodeContents(id);
        const lines = [...range.getClientRects()];
        return [id.textContent, Math.max(...lines.map((line) => line.right - window.right)), lines.length];
      });
    })()""")
    assert all(len(request_id) >= 30 for request_id, _, _ in seen)
    assert all(beyond <= 0 for _, beyond, _ in seen), seen
    assert all(lines <= 3 for _, _, lines in seen), seen


def test_a_reader_finds_the_upstream_that_fails_and_the_time_of_each_request(tab: Tab, gateway: Gateway) -> None:
    open_page(tab, gateway.url + "/", width=1280)
    tab.wait_until("document.querySelector('#requests tbody tr')")
    failing = read_row(tab, "upstreams", "gpu-b")
    assert failing[2].startswith(("it refuses connections", "ejected for"))
    assert failing[4:6] == ["2", "2 (100\u00a0%): 2 unreachable"]
    assert read_row(tab, "upstreams", "gpu-a")[4:6] == ["1", "0 (0\u00a0%)"]
    assert read_row(tab, "upstreams", "gpu-a:two")[0] == "gpu-a:two", "a row beside those of the providers"
    assert read_row(tab, "model-activity", "old")[1:3] == ["1", "1 (100\u00a0%)"]
    assert MARKUP in tab.evaluate("document.getElementById('model-activity').textContent")
    assert tab.evaluate("document.querySelector('main img')") is None
    rows = tab.evaluate(READ_REQUESTS)
    (retried,) = [row for row in rows if row[1] == "qwen3"]
    assert retried[2] == "gpu-a"
    assert retried[3] == "ok 200 after gpu-b: unreachable"
    assert all(part.endswith(" ms") for part in retried[6].split(" · "))
    assert "1 failed" in tab.evaluate("document.getElementById('activity-facts').textContent")


def test_a_reader_chooses_failed_and_slow_requests(tab: Tab, gateway: Gateway) -> None:
    def choose(choice: str) -> list[list[str]]:
        tab.evaluate(f"""(() => {{
          const choice = document.getElementById("request-choice");
          choice.value = "{choice}";
          choice.dispatchEvent(new Event("change"));
        }})()""")
        rows: list[list[str]] = tab.evaluate(READ_REQUESTS)
        return rows

    open_page(tab, gateway.url + "/", width=1280)
    tab.wait_until("document.querySelector('#requests tbody tr')")
    (failed,) = choose("failed")
    assert failed[3].startswith("upstream_error 502 upstream_unreachable")
    latest, slowest = choose("latest"), choose("slowest")
    assert sorted(latest) == sorted(slowest)


def test_a_request_appears_while_the_page_is_open(tab: Tab) -> None:
    with serving(CONFIG) as gateway:
        open_page(tab, gateway.url + "/", width=1280)
        tab.wait_until("!document.getElementById('no-requests').hidden")
        assert send(gateway, "qwen3") == 200
        tab.wait_until("document.querySelectorAll('#requests tbody tr').length === 1")


def test_only_administrators_see_the_activity(tab: Tab) -> None:
    def enter(key: str) -> None:
        tab.evaluate(f"document.getElementById('key').value = {json.dumps(key)}")
        tab.evaluate("document.querySelector('#key-form button').click()")
        tab.wait_until("document.querySelector('#models details.model')")

    with serving({**CONFIG, "auth": KEYS}) as gateway:
        assert send(gateway, "qwen3", authorization=f"Bearer {TEAM}") == 200
        open_page(tab, gateway.url + "/", width=1280)
        enter(TEAM)
        assert tab.evaluate("document.getElementById('activity').hidden && document.getElementById('requests').hidden")
        assert tab.evaluate("document.querySelector('#upstreams [data-live]').offsetWidth") == 0
        open_page(tab, gateway.url + "/", width=1280)
        enter(ADMIN)
        tab.wait_until("document.querySelector('#requests tbody tr')")
        assert "team, /v1/responses" in tab.evaluate(READ_REQUESTS)[0][8]


def test_the_page_says_that_nothing_is_counted_without_metrics(tab: Tab) -> None:
    with serving({**CONFIG, "metrics": {"enabled": False}}) as gateway:
        open_page(tab, gateway.url + "/", width=1280)
        assert "metrics.enabled" in tab.evaluate("document.getElementById('activity').innerText")
        assert tab.evaluate("document.getElementById('requests').hidden")


def test_the_page_says_that_the_server_is_gone_and_keeps_what_it_knows(tab: Tab) -> None:
    with serving(CONFIG) as gateway:
        assert send(gateway, "qwen3") == 200
        open_page(tab, gateway.url + "/", width=1280)
        tab.wait_until("document.querySelector('#requests tbody tr')")
    tab.wait_until("document.getElementById('activity-status').textContent.includes('of earlier')")
    assert len(tab.evaluate(READ_REQUESTS)) == 1
