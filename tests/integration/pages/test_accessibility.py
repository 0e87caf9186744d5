"""Everybody can use the pages: what axe examines, and the criteria of WCAG 2.2 that only a use of the page can show.

docs/accessibility.md has a row for each criterion of levels A and AA, with the test that holds it.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from scripts.page_tools import find_axe
from tests.browser import Tab, find_chromium
from tests.integration.pages.test_in_chromium import KEY, MEASURE_OVERFLOW, PAGES, open_page
from tests.integration.pages.test_playground import config
from tests.serving import Gateway, serving

CHROMIUM = find_chromium()
AXE = find_axe()
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine; $CHROMIUM may name one"),
    pytest.mark.timeout(300),
]
needs_axe = pytest.mark.skipif(AXE is None, reason="axe was not fetched: `make page-tools` does it")

SCHEMES = pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

RUN_AXE = f"""axe.run(document, {{runOnly: {{type: "tag", values: {json.dumps(LEVELS)}}}}}).then((found) =>
  [found.passes.map((rule) => rule.id),
   found.violations.flatMap((rule) => rule.nodes.map((node) => `${{rule.id}}: ${{node.html.slice(0, 200)}}`))])"""

COLOURS = """
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
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
"""

FIND_STOPS = """window.stops = [...document.querySelectorAll(
    "a[href], button, input, select, textarea, summary, [tabindex]")]
  .filter((each) => each.checkVisibility({visibilityProperty: true}) && !each.disabled && each.tabIndex >= 0)
  .filter((each) => each.type !== "radio" || each.checked);
window.stops.length"""
"""What the Tab key must reach, in the order of the document. A group of radio buttons is one stop."""

DESCRIBE_STOP = f"""(() => {{
  {COLOURS}
  const here = document.activeElement, style = getComputedStyle(here), box = here.getBoundingClientRect();
  // A point of the part that is in the window: a long table reaches beyond it.
  const inside = (from, to, end) => Math.max(from, 0) + Math.min((Math.min(to, end) - Math.max(from, 0)) / 2, 12);
  const seen = document.elementFromPoint(
    inside(box.left, box.right, document.documentElement.clientWidth), inside(box.top, box.bottom, innerHeight));
  return {{
    index: window.stops.indexOf(here),
    html: here.outerHTML.slice(0, 120),
    isBody: here === document.body,
    outlined: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1,
    contrast: style.outlineStyle === "auto" ? 21 : contrast(style.outlineColor, ground(here.parentElement)),
    covered: !(seen && [here, ...(here.labels ?? [])].some((each) => each.contains(seen) || seen.contains(each))),
  }};
}})()"""

FAINT_CONTROLS = f"""(() => {{
  {COLOURS}
  return [...document.querySelectorAll("input:not([type=radio], [type=checkbox], [type=range]), textarea, select")]
    .filter((each) => each.checkVisibility())
    .filter((each) => contrast(getComputedStyle(each).borderTopColor, ground(each.parentElement)) < 3)
    .map((each) => each.outerHTML);
}})()"""
"""Fields whose border can hardly be told from what is around them."""

SPACE_TEXT = """(() => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`
    * { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important; }
    p { margin-bottom: 2em !important; }`);
  document.adoptedStyleSheets = [sheet];
})()"""
"""What readers with dyslexia set in their browser, as much as a page must bear."""

FIND_CUT = """[...document.querySelectorAll("body *")]
  .filter((each) => each.checkVisibility() && !each.closest(".unseen, .scroll"))
  .filter((each) => ["hidden", "clip"].includes(getComputedStyle(each).overflowX) || each.tagName === "BUTTON")
  .filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.outerHTML.slice(0, 120))"""

UNWANTED = (
    "audio, video, canvas, object, embed, iframe, marquee, blink, img, "
    "[title], [accesskey], [draggable=true], [autofocus]"
)

COUNT_TICKS = """(() => {
  const set = window.setTimeout;
  window.ticks = 0;
  window.setTimeout = (act, ms, ...given) => {
    if (ms === 2000) window.ticks += 1;
    return set(act, ms === 2000 ? 20 : ms, ...given);
  };
})()"""
"""Makes the figures hurry, and counts their turns."""


CRITERIA = {
    "A": "1.1.1 1.2.1 1.2.2 1.2.3 1.3.1 1.3.2 1.3.3 1.4.1 1.4.2 2.1.1 2.1.2 2.1.4 2.2.1 2.2.2 2.3.1 2.4.1 2.4.2 2.4.3 "
    "2.4.4 2.5.1 2.5.2 2.5.3 2.5.4 3.1.1 3.2.1 3.2.2 3.2.6 3.3.1 3.3.2 3.3.7 4.1.2",
    "AA": "1.2.4 1.2.5 1.3.4 1.3.5 1.4.3 1.4.4 1.4.5 1.4.10 1.4.11 1.4.12 1.4.13 2.4.5 2.4.6 2.4.7 2.4.11 2.5.7 2.5.8 "
    "3.1.2 3.2.3 3.2.4 3.3.3 3.3.4 3.3.8 4.1.3",
}
"""The success criteria of WCAG 2.2 at its levels."""


@pytest.fixture(scope="module")
def gateway(folder: Path) -> Iterator[Gateway]:
    """A gateway whose home page has all that it can have: models that fail, figures, requests, a report."""
    with serving({**config(), "server": {"doctor_report": str(folder / "report.json")}}) as gateway:
        for model in ("demo", "dead-model"):
            send(gateway, model)
        yield gateway


def send(gateway: Gateway, model: str) -> None:
    body = {"model": model, "input": "Hello"}
    httpx.post(f"{gateway.v1}/responses", json=body, verify=False, trust_env=False, timeout=60)


def show(tab: Tab, page: str, gateway: Gateway, folder: Path, *, width: int = 1280, dark: bool = False) -> None:
    """Opens a page with all that it can show. The page / has requests by then."""
    url = gateway.url + page if page.startswith("/") else (folder / page).as_uri()
    open_page(tab, url, width=width, dark=dark)
    if page == "/":
        tab.wait_until("document.querySelectorAll('#requests tbody tr').length > 1")


def open_details(tab: Tab, most: int = 1000) -> None:
    tab.evaluate(f"for (const each of [...document.querySelectorAll('details')].slice(0, {most})) each.open = true")


def press(tab: Tab, key: str, text: str = "", *, shift: bool = False) -> None:
    codes = {"Tab": 9, "Enter": 13, " ": 32, "ArrowRight": 39}
    known = {"key": key, "windowsVirtualKeyCode": codes[key], "modifiers": 8 if shift else 0}
    tab.send(
        "Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **known, **({"text": text} if text else {})
    )
    tab.send("Input.dispatchKeyEvent", type="keyUp", **known)


def focus(tab: Tab, selector: str) -> None:
    tab.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")


@needs_axe
@SCHEMES
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_nothing_to_mend(page: str, dark: bool, tab: Tab, gateway: Gateway, folder: Path) -> None:
    assert AXE is not None
    show(tab, page, gateway, folder, dark=dark)
    # The parts of /docs are hundreds of one kind, for which axe would take a minute.
    open_details(tab, most=12 if page == "/docs" else 1000)
    tab.evaluate(f"{AXE.read_text(encoding='utf-8')}; 0")
    passed, failed = tab.evaluate(RUN_AXE)
    assert failed == []
    examined = {"html-has-lang", "document-title", "bypass", "heading-order", "color-contrast", "landmark-one-main"}
    assert examined <= set(passed)


@pytest.mark.parametrize("width", [1280, 320])
@pytest.mark.parametrize("page", PAGES)
def test_the_tab_key_reaches_every_control_in_order_and_its_focus_is_seen(
    page: str, width: int, tab: Tab, gateway: Gateway, folder: Path
) -> None:
    show(tab, page, gateway, folder, width=width)
    if page == "/":
        focus(tab, "#activity-pause")
        press(tab, " ", " ")  # so that no row comes or goes meanwhile
        tab.evaluate("document.activeElement.blur(); getSelection().removeAllRanges(); scrollTo(0, 0)")
        show_stops_from_the_start(tab)
    count = tab.evaluate(FIND_STOPS)
    assert count > 2
    seen = []
    for _ in range(count):
        press(tab, "Tab")
        seen.append(tab.evaluate(DESCRIBE_STOP))
    assert [stop["index"] for stop in seen] == list(range(count)), [stop["html"] for stop in seen]
    assert [stop for stop in seen if not stop["outlined"] or stop["contrast"] < 3 or stop["covered"]] == []
    press(tab, "Tab", shift=True)
    assert tab.evaluate(DESCRIBE_STOP)["index"] == count - 2, "it leads back too"


def show_stops_from_the_start(tab: Tab) -> None:
    """Makes the next Tab lead to the first control: a browser goes on from where the focus was."""
    tab.evaluate("""(() => {
      document.body.tabIndex = -1;
      document.body.focus();
      document.body.removeAttribute("tabindex");
    })()""")


def test_the_playground_works_without_a_mouse_and_says_what_happens(tab: Tab, gateway: Gateway, folder: Path) -> None:
    show(tab, "/", gateway, folder)
    focus(tab, "#try-budget")
    press(tab, "ArrowRight")
    assert tab.evaluate("document.getElementById('try-budget').getAttribute('aria-valuetext')") == "16 tokens"
    focus(tab, "#try-tools input")
    press(tab, " ", " ")
    assert tab.evaluate("document.querySelector('#try-tools input').checked")
    press(tab, " ", " ")
    tab.evaluate("document.getElementById('try-model').value = 'demo'")
    focus(tab, "#try-form .primary")
    press(tab, "Enter", "\r")
    tab.wait_until("document.querySelector('#try-status[role=status]').textContent.includes(' after ')")
    assert tab.evaluate("document.getElementById('try-reply').checkVisibility()")
    assert tab.evaluate("document.activeElement.matches('#try-form .primary')"), "the focus remains"
    focus(tab, "#try-code summary")
    press(tab, "Enter", "\r")
    assert tab.evaluate("document.getElementById('try-code').open")


def test_figures_that_change_by_themselves_can_be_paused(tab: Tab, gateway: Gateway, folder: Path) -> None:
    def wait_for_ticks() -> None:
        tab.evaluate("""new Promise((resolve) => {
          const goal = window.ticks + 4;
          const look = () => window.ticks >= goal ? resolve() : requestAnimationFrame(look);
          look();
        })""")

    show(tab, "/", gateway, folder)
    tab.evaluate(COUNT_TICKS)
    focus(tab, "#activity-pause")
    press(tab, " ", " ")
    assert "Paused" in tab.evaluate("document.querySelector('#activity-status[role=status]').textContent")
    wait_for_ticks()  # a reply may have been on its way
    rows = "document.querySelector('#requests tbody').textContent"
    before, asked = tab.evaluate(rows), len(tab.requests)
    send(gateway, "demo")
    wait_for_ticks()
    assert (tab.evaluate(rows), len(tab.requests)) == (before, asked)
    press(tab, " ", " ")
    tab.wait_until(f"{rows} !== {json.dumps(before)}")
    assert tab.evaluate("document.getElementById('activity-pause').textContent") == "Pause the figures"


def test_what_was_copied_is_said_and_the_name_of_the_button_is_what_is_seen(
    tab: Tab, gateway: Gateway, folder: Path
) -> None:
    show(tab, "/", gateway, folder)
    focus(tab, "[data-copy=snippet-0-curl]")
    press(tab, "Enter", "\r")
    tab.wait_until("document.getElementById('copy-status').textContent")
    said = tab.evaluate("document.querySelector('#copy-status[role=status]').textContent")
    assert said in ("Copied: curl", "Selected: curl")
    names = tab.evaluate("""[...document.querySelectorAll("button[aria-label]")]
      .map((each) => [each.getAttribute("aria-label"), each.textContent.trim()])""")
    assert names
    assert [(name, shown) for name, shown in names if not name.startswith(shown)] == []
    assert len({name for name, _ in names}) > 3, "each says what it copies"


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", [1280, 640, 320])
def test_wider_spacing_and_larger_text_cut_nothing_off(
    width: int, page: str, tab: Tab, gateway: Gateway, folder: Path
) -> None:
    """A page of 1,280 pixels that is enlarged to 200 % or 400 % is one of 640 or 320."""
    show(tab, page, gateway, folder, width=width)
    tab.evaluate(SPACE_TEXT)
    assert tab.evaluate(MEASURE_OVERFLOW) <= 0
    assert tab.evaluate(FIND_CUT) == []


@SCHEMES
@pytest.mark.parametrize("page", PAGES)
def test_fields_are_told_from_what_is_around_them(
    page: str, dark: bool, tab: Tab, gateway: Gateway, folder: Path
) -> None:
    show(tab, page, gateway, folder, dark=dark)
    assert tab.evaluate(FAINT_CONTROLS) == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_nothing_that_moves_plays_hides_or_asks_for_a_gesture(
    page: str, tab: Tab, gateway: Gateway, folder: Path
) -> None:
    show(tab, page, gateway, folder)
    open_details(tab)
    assert tab.evaluate("document.getAnimations().length") == 0
    assert tab.evaluate(f"document.querySelectorAll({json.dumps(UNWANTED)}).length") == 0


def test_an_error_is_said_and_names_what_to_do_and_a_key_may_be_pasted(tab: Tab, folder: Path) -> None:
    auth = {"keys": [{"name": "team-a", "key": KEY, "models": ["demo"]}]}
    with serving({**config(), "auth": auth}) as locked:
        open_page(tab, locked.url + "/", width=1280)
        focus(tab, "#key")
        tab.send("Input.insertText", text="wrong")
        assert tab.evaluate("document.getElementById('key').value") == "wrong"
        press(tab, "Enter", "\r")
        tab.wait_until(
            "document.querySelector('#key-status[role=status]').textContent.includes('does not know the key')"
        )
        assert tab.evaluate("document.getElementById('key').labels[0].textContent") == "API key"


def test_the_page_of_the_docs_has_every_criterion_and_names_tests_that_exist() -> None:
    here = Path(__file__)
    text = (here.parents[3] / "docs/accessibility.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d\.\d\.\d+) .*? \| (A+) \| .+ \| (.+) \|$", text, flags=re.MULTILINE)
    found = [(number, level) for number, level, _ in rows]
    assert sorted(found) == sorted((number, level) for level, numbers in CRITERIA.items() for number in numbers.split())
    tests = "".join(file.read_text(encoding="utf-8") for file in here.parent.glob("test_*.py"))
    named = {name for *_, holder in rows for name in re.findall(r"`(test_\w+)`", holder)}
    assert {name for name in named if f"def {name}(" not in tests} == set()
    assert all(holder == "read" or "axe" in holder or "`test_" in holder for *_, holder in rows)
