"""The playground of the home page in a real browser: requests, their replies, and the same requests as programs."""

import ast
import json
import shlex
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from gateway.config.discovery import _DEMO_NOTES
from tests.browser import Tab, find_chromium
from tests.integration.pages.test_in_chromium import KEY, MARKUP, MEASURE_CONTRAST, open_page
from tests.serving import Gateway, serving
from tests.upstream import closed_port

CHROMIUM = find_chromium()
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine; $CHROMIUM may name one"),
    pytest.mark.timeout(180),
]

SCREENS = [(width, dark) for width in (320, 375, 1280, 2560) for dark in (False, True)]

UNNAMED = """(() => {
  const named = (each) => each.labels?.length || each.textContent.trim() || each.getAttribute("aria-label");
  return [...document.querySelectorAll("main input, main textarea, main button, main select, main [role=region]")]
    .filter((each) => each.offsetParent !== null && !named(each)).map((each) => each.outerHTML);
})()"""
"""What a reader operates and that has no name."""

SMALL = """[...document.querySelectorAll("main button, main input, main textarea, main summary")]
  .filter((each) => each.offsetParent !== null && each.getBoundingClientRect().height < 23.5)
  .map((each) => each.outerHTML.slice(0, 80))"""
"""What is lower than the 24 pixels that WCAG 2.2 requires of targets at level AA."""


def config(**more: Any) -> dict[str, Any]:
    return {
        "server": {"doctor_report": None},
        "providers": {
            "dead": {"type": "openai_compatible", "base_url": f"http://127.0.0.1:{closed_port()}/v1", "retries": 0},
            "scripted": {"type": "scripted"},
        },
        "models": {"dead-model": {"provider": "dead"}, "demo": {"provider": "scripted"}},
        "tools": {"mcp": {"servers": {"notes": _DEMO_NOTES}}},
        **more,
    }


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with serving(config()) as gateway:
        yield gateway


def fill(tab: Tab, **values: str) -> None:
    for name, value in values.items():
        field = f"document.getElementById('try-{name}')"
        tab.evaluate(
            f"{field}.value = {json.dumps(value)}; {field}.dispatchEvent(new Event('input', {{bubbles: true}}))"
        )


def choose(tab: Tab, selector: str) -> None:
    tab.evaluate(f"document.querySelector({json.dumps(selector)}).click()")


def send(tab: Tab) -> None:
    tab.evaluate("document.getElementById('try-status').textContent = ''")
    choose(tab, "#try-form .primary")
    tab.wait_until("document.getElementById('try-status').textContent.includes(' after ')")


def read(tab: Tab, selector: str) -> str:
    text: str = tab.evaluate(f"document.querySelector({json.dumps(selector)}).textContent")
    return text


@pytest.mark.parametrize(("width", "dark"), SCREENS)
def test_the_page_with_a_reply_fits_and_can_be_read_and_operated(
    width: int, dark: bool, tab: Tab, gateway: Gateway
) -> None:
    open_page(tab, gateway.url + "/", width=width, dark=dark)
    fill(tab, budget="4", input="word " * 50 + "x" * 300)
    send(tab)
    tab.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    # A phone would widen the page to what does not fit, so its own width is what counts.
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.evaluate(MEASURE_CONTRAST) >= 4.5
    assert tab.evaluate(UNNAMED) == []
    assert tab.evaluate(SMALL) == []
    assert tab.problems == []


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_thinking_and_answer_are_shown_apart_and_stay_text(api: str, tab: Tab, gateway: Gateway) -> None:
    open_page(tab, gateway.url + "/", width=1280)
    choose(tab, f"[name=api][value={api}]")
    fill(tab, input=MARKUP, budget="4")
    send(tab)
    assert MARKUP in read(tab, "#try-answer")
    assert "I will repeat it." in read(tab, "#try-thinking pre")
    assert "I will repeat it." not in read(tab, "#try-answer")
    assert "thinking" in read(tab, "#try-facts")
    assert tab.evaluate("document.querySelector('main script, main img')") is None
    assert read(tab, "#try-status").startswith("Complete after")
    assert tab.problems == []


def test_a_tool_that_the_gateway_runs_is_called_and_shown(tab: Tab, gateway: Gateway) -> None:
    open_page(tab, gateway.url + "/", width=1280)
    choose(tab, "#try-tools input")
    fill(tab, input="Call list_notes")
    send(tab)
    assert "list_notes" in read(tab, "#try-calls")
    choose(tab, "[name=api][value=chat]")
    assert tab.evaluate("document.querySelector('#try-tools input').disabled") is True


def test_a_failure_is_shown_with_its_status_and_message(tab: Tab, gateway: Gateway) -> None:
    open_page(tab, gateway.url + "/", width=1280)
    fill(tab, model="dead-model", input="Hi")
    send(tab)
    assert read(tab, "#try-facts .fail") == "502: the upstream cannot be reached"
    assert read(tab, "#try-status").startswith("Failed after")


def test_a_request_can_be_stopped(tab: Tab, gateway: Gateway) -> None:
    open_page(tab, gateway.url + "/", width=1280)
    tab.evaluate(
        "window.fetch = (_, options) => new Promise((_, reject) => "
        "options.signal.addEventListener('abort', () => reject(new Error('stopped'))))"
    )
    choose(tab, "#try-form .primary")
    tab.wait_until("!document.getElementById('try-stop').disabled")
    choose(tab, "#try-stop")
    tab.wait_until("document.getElementById('try-status').textContent.startsWith('Stopped')")


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_the_programs_send_the_request_of_the_form(api: str, tab: Tab, gateway: Gateway) -> None:
    text = 'it\'s "quoted" $(id) `id` \\ {true}\nand false'
    open_page(tab, gateway.url + "/", width=1280)
    choose(tab, f"[name=api][value={api}]")
    fill(tab, input=text, budget="3")
    words = shlex.split(read(tab, "#try-curl"))
    body = json.loads(words[words.index("-d") + 1])
    reply = httpx.post(words[1], json=body, trust_env=False, timeout=60)
    assert reply.status_code == 200
    assert body["reasoning"] == {"max_tokens": 64}
    assert (body["input"] if api == "responses" else body["messages"][0]["content"]) == text
    call = next(
        node
        for node in ast.walk(ast.parse(read(tab, "#try-python")))
        if isinstance(node, ast.Call) and node.keywords and node.keywords[0].arg == "model"
    )
    values = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    extra = values.pop("extra_body")
    assert {**values, **extra} == body
    typescript = read(tab, "#try-typescript")
    assert json.loads(typescript.partition("body: any = ")[2].partition(";\nconst reply")[0]) == body


def test_what_cannot_be_reached_is_marked_and_not_recommended_first(tab: Tab, gateway: Gateway) -> None:
    open_page(tab, gateway.url + "/", width=1280)
    names = tab.evaluate("[...document.querySelectorAll('#models details.model b')].map((name) => name.textContent)")
    assert names == ["demo", "dead-model"]
    assert tab.evaluate("document.getElementById('try-model').value") == "demo"
    assert "refuses connections" in read(tab, "#models details.model:last-of-type summary")
    rows = tab.evaluate("[...document.querySelectorAll('#upstreams tbody tr')].map((row) => row.textContent)")
    assert len(rows) == 2
    assert tab.evaluate("document.querySelector('#upstreams .fail').textContent").startswith("it refuses connections")
    assert "ANTHROPIC_MODEL=demo" in read(tab, "#client-claude")


def test_with_keys_the_playground_sends_the_readers_key(tab: Tab) -> None:
    auth = {"keys": [{"name": "team-a", "key": KEY, "models": ["demo"]}]}
    with serving(config(auth=auth)) as locked:
        open_page(tab, locked.url + "/", width=1280)
        assert tab.evaluate("document.getElementById('playground').hidden") is True
        tab.evaluate(f"document.getElementById('key').value = {json.dumps(KEY)}")
        choose(tab, "#key-form button")
        tab.wait_until("!document.getElementById('playground').hidden")
        fill(tab, input="Hello there")
        send(tab)
        assert "Hello there" in read(tab, "#try-answer")
        assert "$GATEWAY_KEY" in read(tab, "#try-curl")
        assert KEY not in tab.evaluate("document.body.textContent")
