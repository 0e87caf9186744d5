"""The pages in a real browser: they fit, their policy is obeyed, and their buttons work."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import Tab, find_chromium
from tests.integration.pages.reported import LONG
from tests.serving import Gateway, serving

CHROMIUM = find_chromium()
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine; $CHROMIUM may name one"),
    pytest.mark.timeout(180),
]
KEY = "key-of-team-a"
MARKUP = "<img src=x onerror=alert(1)><script>alert(1)</script>"
CONFIG: dict[str, Any] = {
    "providers": {"scripted": {"type": "scripted"}},
    "models": {name: {"provider": "scripted"} for name in ("demo", LONG, MARKUP, "*")},
}
PAGES = ("/", "/docs", "report.html")
"""Every page, and the report that the doctor writes as a file."""
SCREENS = [(width, dark) for width in (1280, 320) for dark in (False, True)] + [(375, False), (2560, True)]

MEASURE_OVERFLOW = """(() => {
  for (const each of document.querySelectorAll("details")) each.open = true;
  const width = document.documentElement.clientWidth;
  const ends = [...document.querySelectorAll("body *")].filter((element) => !element.parentElement.closest(".scroll"))
    .map((element) => element.getBoundingClientRect().right);
  return Math.max(0, Math.round(Math.max(document.documentElement.scrollWidth, ...ends) - width));
})()"""
"""How far anything reaches beyond the window. `innerWidth` would not do: on a phone it grows with what overflows."""

FIND_BROKEN_WORDS = """(() => {
  const broken = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (text.parentElement.closest("script, style, noscript, pre")) continue;
    for (const word of text.data.matchAll(/[A-Za-z]+/g)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const lines = [...range.getClientRects()].filter((line) => line.width > 0).map((line) => Math.round(line.top));
      if (new Set(lines).size > 1) broken.add(word[0]);
    }
  }
  return [...broken];
})()"""
"""The words that go on in the next line. Examples of code may break anywhere."""

MEASURE_CONTRAST = """(() => {
  const parse = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const luminance = (text) => parse(text).map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
  const ground = (element) => {
    for (; element; element = element.parentElement) {
      const colour = getComputedStyle(element).backgroundColor;
      if (colour !== "rgba(0, 0, 0, 0)") return colour;
    }
    return "rgb(255, 255, 255)";
  };
  let least = 21;
  for (const element of document.querySelectorAll("body *")) {
    if (![...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
    if (["SCRIPT", "NOSCRIPT"].includes(element.tagName)) continue;
    const [low, high] = [luminance(getComputedStyle(element).color), luminance(ground(element))].sort((a, b) => a - b);
    least = Math.min(least, (high + 0.05) / (low + 0.05));
  }
  return least;
})()"""
"""The least contrast of any text with what is behind it. WCAG 2.2 requires 4.5 at level AA."""


@pytest.fixture(scope="module")
def gateway(folder: Path) -> Iterator[Gateway]:
    with serving({**CONFIG, "server": {"doctor_report": str(folder / "report.json")}}) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def locked(folder: Path) -> Iterator[Gateway]:
    auth = {"keys": [{"name": "team-a", "key": KEY, "models": ["demo"]}]}
    with serving({**CONFIG, "auth": auth, "server": {"doctor_report": str(folder / "report.json")}}) as gateway:
        yield gateway


def open_page(tab: Tab, url: str, *, width: int, dark: bool = False) -> None:
    """Loads a page, and waits until its script has shown what the server returned."""
    tab.problems.clear()
    tab.requests.clear()
    tab.open(url, width=width, dark=dark)
    tab.wait_until("document.querySelector('main:not([aria-busy])')")


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(("width", "dark"), SCREENS)
def test_a_page_fits_is_readable_and_loads_only_its_own_files(
    page: str, width: int, dark: bool, tab: Tab, gateway: Gateway, folder: Path
) -> None:
    url = gateway.url + page if page.startswith("/") else (folder / page).as_uri()
    open_page(tab, url, width=width, dark=dark)
    assert tab.evaluate(MEASURE_OVERFLOW) <= 0
    assert tab.evaluate(MEASURE_CONTRAST) >= 4.5
    light = tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert light is not dark
    assert tab.problems == []
    requests = [request for request in tab.requests if request != url and not request.startswith("data:")]
    assert all(request.startswith(f"{gateway.url}/pages/") for request in requests)
    assert bool(requests) is page.startswith("/")
    assert tab.evaluate("document.body.textContent.includes('undefined')") is False


@pytest.mark.parametrize("width", [320, 375, 1280])
def test_no_word_of_the_api_page_is_broken_in_the_middle(width: int, tab: Tab, gateway: Gateway) -> None:
    open_page(tab, gateway.url + "/docs", width=width)
    assert tab.evaluate(MEASURE_OVERFLOW) <= 0
    assert tab.evaluate(FIND_BROKEN_WORDS) == []


def test_an_element_beyond_the_window_would_be_seen(tab: Tab, gateway: Gateway) -> None:
    open_page(tab, gateway.url + "/docs", width=320)
    tab.evaluate("""(() => {
      const wide = document.createElement("p");
      wide.style.width = "500px";
      wide.style.maxWidth = "none";
      document.querySelector("main").append(wide);
    })()""")
    assert tab.evaluate(MEASURE_OVERFLOW) > 100


def test_an_example_is_copied_with_the_address_of_the_page(tab: Tab, gateway: Gateway) -> None:
    tab.send("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    open_page(tab, gateway.url + "/", width=1280)
    tab.evaluate("document.querySelector('[data-copy=snippet-0-curl]').click()")
    tab.wait_until("document.querySelector('[data-copy=snippet-0-curl]').textContent !== 'Copy'")
    assert tab.evaluate("getSelection().toString()").startswith(f"curl {gateway.url}/v1/responses")
    assert tab.evaluate("document.querySelector('[data-copy=snippet-0-curl]').textContent") in ("Copied", "Selected")


def test_scripts_that_a_page_does_not_contain_cannot_run(tab: Tab, gateway: Gateway) -> None:
    open_page(tab, gateway.url + "/", width=1280)
    tab.evaluate("""new Promise((resolve) => {
      document.addEventListener("securitypolicyviolation", resolve, {once: true});
      const script = document.createElement("script");
      script.append("window.injected = true");
      document.body.append(script);
    })""")
    assert tab.evaluate("window.injected") is None


def test_no_script_can_make_html_of_a_text(tab: Tab, gateway: Gateway) -> None:
    open_page(tab, gateway.url + "/", width=1280)
    message = tab.evaluate("""(() => {
      try { document.querySelector("main").innerHTML = "<b>text</b>"; } catch (error) { return error.message; }
    })()""")
    assert "TrustedHTML" in message


def test_names_and_reports_are_text_on_the_page(tab: Tab, gateway: Gateway) -> None:
    open_page(tab, gateway.url + "/", width=1280)
    names = tab.evaluate("[...document.querySelectorAll('#models details.model b')].map((name) => name.textContent)")
    assert names == ["demo", LONG, MARKUP, "scripted"]
    assert tab.evaluate("document.querySelector('main script, main img')") is None
    cells = tab.evaluate("[...document.querySelectorAll('#results td')].map((cell) => cell.textContent)")
    assert "<b>why</b>" in " ".join(cells)
    assert tab.evaluate("document.querySelectorAll('#results article.failing').length") == 2
    assert tab.evaluate("document.querySelector('#patterns').textContent").endswith("upstream: * (scripted).")
    assert tab.evaluate("document.querySelector('#facts dd span').className") == "pass"


def test_a_link_to_an_operation_leads_to_its_place(tab: Tab, gateway: Gateway) -> None:
    open_page(tab, f"{gateway.url}/docs#get-readyz", width=1280)
    top = tab.evaluate("document.getElementById('get-readyz').getBoundingClientRect().top")
    assert 0 <= top < 800
    links = tab.evaluate("""[...document.querySelectorAll("nav a")].map((link) =>
      document.getElementById(link.getAttribute("href").slice(1))?.tagName)""")
    assert set(links) == {"ARTICLE"}


def test_a_key_lists_its_models_and_a_wrong_key_is_reported(tab: Tab, locked: Gateway) -> None:
    def enter(key: str) -> None:
        tab.evaluate(f"document.getElementById('key').value = {json.dumps(key)}")
        tab.evaluate("document.querySelector('#key-form button').click()")

    open_page(tab, locked.url + "/", width=320)
    assert tab.evaluate(MEASURE_OVERFLOW) <= 0
    assert "demo" not in tab.evaluate("document.body.innerText")
    assert "doctor" not in tab.evaluate("document.body.innerText")
    enter("wrong")
    tab.wait_until("document.getElementById('key-status').textContent.includes('does not know the key')")
    enter(KEY)
    tab.wait_until("document.querySelector('#models details.model')")
    names = tab.evaluate("[...document.querySelectorAll('#models details.model b')].map((name) => name.textContent)")
    assert names == ["demo"]
    assert tab.evaluate("document.getElementById('snippet-0-curl').textContent").startswith(f"curl {locked.url}/v1")
    assert tab.evaluate("document.querySelector('article h3').textContent").startswith("demo: ")


def test_a_page_of_another_site_learns_why_it_may_run_nothing(tab: Tab, gateway: Gateway, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<!doctype html><p>A page</p>")
    tab.open((tmp_path / "page.html").as_uri(), width=1280)
    for headers in ('{"content-type": "application/json"}', '{"content-type": "text/plain"}'):
        reply = tab.evaluate(f"""fetch({json.dumps(gateway.v1 + "/responses")},
          {{method: "POST", headers: {headers}, body: '{{"model": "demo", "input": "Hi"}}'}})
          .then(async (reply) => [reply.status, (await reply.json()).error.message])""")
        assert reply[0] == 403
        assert "server.cors.origins" in reply[1]


def test_every_cell_of_the_report_leads_to_its_advice_or_its_remarks(tab: Tab, folder: Path) -> None:
    open_page(tab, (folder / "report.html").as_uri(), width=320)
    links = tab.evaluate("""[...document.querySelectorAll("table:not(.checks) td a")].map((link) =>
      [link.className, document.querySelector(link.getAttribute("href"))?.tagName])""")
    assert {tuple(link) for link in links} == {("pass", "TR"), ("fail", "ARTICLE"), ("skipped", "TR")}
