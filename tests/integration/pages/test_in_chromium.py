"""The pages in a real browser: they fit, their policy is obeyed, and their buttons work."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.doctor.html_report import render_html
from gateway.doctor.report_origin import ReportOrigin, save_results
from tests.browser import Tab, find_chromium, open_browser
from tests.serving import Gateway, serving
from tests.unit.gateway.doctor.diagnoses import diagnosis

CHROMIUM = find_chromium()
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine; $CHROMIUM may name one"),
    pytest.mark.timeout(180),
]
KEY = "key-of-team-a"
LONG = "organisation/a-model-with-a-name-that-is-longer-than-a-phone-is-wide-Q4_K_M-0123456789"
CONFIG: dict[str, Any] = {
    "providers": {"scripted": {"type": "scripted"}},
    "models": {"demo": {"provider": "scripted"}, LONG: {"provider": "scripted"}, "*": {"provider": "scripted"}},
}
ORIGIN = ReportOrigin(product_version="0.1.0", date="2026-11-23T08:00:00Z", config_digest="abcdef012345")
REPORTED = [diagnosis("demo", "tools", "tools_streamed", "stop"), diagnosis(LONG, "images")]
SCREENS = [(width, dark) for width in (1280, 320) for dark in (False, True)]

MEASURE_OVERFLOW = """(() => {
  for (const each of document.querySelectorAll("details")) each.open = true;
  return document.documentElement.scrollWidth - innerWidth;
})()"""

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
def tab() -> Iterator[Tab]:
    assert CHROMIUM is not None
    with open_browser(CHROMIUM) as tab:
        yield tab


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    save_results(folder / "report.json", REPORTED, ORIGIN)
    (folder / "report.html").write_text(render_html(REPORTED, ORIGIN))
    return folder


@pytest.fixture(scope="module")
def gateway(folder: Path) -> Iterator[Gateway]:
    with serving({**CONFIG, "server": {"doctor_report": str(folder / "report.json")}}) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def locked(folder: Path) -> Iterator[Gateway]:
    auth = {"keys": [{"name": "team-a", "key": KEY, "models": ["demo"]}]}
    with serving({**CONFIG, "auth": auth, "server": {"doctor_report": str(folder / "report.json")}}) as gateway:
        yield gateway


@pytest.mark.parametrize("page", ["/", "/docs", "report.html"])
@pytest.mark.parametrize(("width", "dark"), SCREENS)
def test_a_page_fits_is_readable_and_loads_nothing(
    page: str, width: int, dark: bool, tab: Tab, gateway: Gateway, folder: Path
) -> None:
    tab.problems.clear()
    tab.requests.clear()
    url = gateway.url + page if page.startswith("/") else (folder / page).as_uri()
    tab.open(url, width=width, dark=dark)
    assert tab.evaluate(MEASURE_OVERFLOW) <= 0
    assert tab.evaluate(MEASURE_CONTRAST) >= 4.5
    light = tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert light is not dark
    assert tab.problems == []
    assert [request for request in tab.requests if not request.startswith("data:")] == [url]


def test_an_example_is_copied_with_the_address_of_the_page(tab: Tab, gateway: Gateway) -> None:
    tab.send("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    tab.open(gateway.url + "/", width=1280)
    tab.evaluate("document.querySelector('[data-copy=snippet-0-curl]').click()")
    tab.wait_until("document.querySelector('[data-copy=snippet-0-curl]').textContent !== 'Copy'")
    assert tab.evaluate("getSelection().toString()").startswith(f"curl {gateway.url}/v1/responses")
    assert tab.evaluate("document.querySelector('[data-copy=snippet-0-curl]').textContent") in ("Copied", "Selected")


def test_scripts_that_a_page_does_not_contain_cannot_run(tab: Tab, gateway: Gateway) -> None:
    tab.open(gateway.url + "/", width=1280)
    tab.problems.clear()
    tab.evaluate("""new Promise((resolve) => {
      document.addEventListener("securitypolicyviolation", resolve, {once: true});
      const script = document.createElement("script");
      script.textContent = "window.injected = true";
      document.body.append(script);
    })""")
    assert tab.evaluate("window.injected") is None


def test_a_key_lists_its_models_and_a_wrong_key_is_reported(tab: Tab, locked: Gateway) -> None:
    def enter(key: str) -> None:
        tab.evaluate(
            f"document.getElementById('key').value = {json.dumps(key)}; document.querySelector('button').click()"
        )

    tab.open(locked.url + "/", width=320)
    assert tab.evaluate(MEASURE_OVERFLOW) <= 0
    assert "demo" not in tab.evaluate("document.body.textContent.replace(document.scripts[0].textContent, '')")
    enter("wrong")
    tab.wait_until("document.getElementById('key-status').textContent.includes('does not know the key')")
    enter(KEY)
    tab.wait_until("document.querySelector('details.model')")
    names = tab.evaluate("[...document.querySelectorAll('details.model b')].map((name) => name.textContent)")
    assert names == ["demo"]
    assert tab.evaluate("document.getElementById('snippet-0-curl').textContent").startswith(f"curl {locked.url}/v1")
    assert tab.evaluate("document.querySelector('article h3').textContent").startswith("demo: ")


def test_every_cell_of_the_report_leads_to_its_advice_or_its_remarks(tab: Tab, folder: Path) -> None:
    tab.open((folder / "report.html").as_uri(), width=320)
    links = tab.evaluate("""[...document.querySelectorAll("table:not(.checks) td a")].map((link) =>
      [link.className, document.querySelector(link.getAttribute("href"))?.tagName])""")
    assert {tuple(link) for link in links} == {("pass", "TR"), ("fail", "ARTICLE"), ("skipped", "TR")}
