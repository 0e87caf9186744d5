"""The doctor's results as an HTML page."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from gateway.doctor.checks.check_list import CHECKS
from gateway.doctor.checks.verdicts import Finding, Verdict
from gateway.doctor.html_report import render_html
from gateway.doctor.part_diagnosis import PartDiagnosis
from gateway.doctor.text_report import render_json
from tests.unit.gateway.doctor.diagnoses import FAILING, ORIGIN, diagnosis

VERDICTS: tuple[Verdict, ...] = ("pass", "fail", "refused", "skipped")


class Reader(HTMLParser):
    """The tags of a page, which must all be closed, and what they refer to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.headings = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link":
            assert given == {"rel": "icon", "href": "data:,"}
            return
        self.headings += tag == "th" and "scope" in given
        assert tag != "th" or "scope" in given
        self.ids += [given["id"] or ""] if "id" in given else []
        self.references += [given[name] or "" for name in ("href", "src") if name in given]
        self.references += [f"#{given[name]}" for name in ("aria-labelledby",) if name in given]
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_from_elsewhere() -> None:
    page = render_html([diagnosis("<script>", "tools"), diagnosis("two", provider="a&b")], ORIGIN)
    reader = Reader(page)
    assert reader.open == []
    assert len(set(reader.ids)) == len(reader.ids)
    assert {reference.removeprefix("#") for reference in reader.references} <= set(reader.ids)
    assert all(reference.startswith("#") for reference in reader.references)
    assert "<script>" not in page
    assert "<b>why</b>" not in page
    assert "a&amp;b" in page
    assert "prefers-color-scheme: dark" in page
    assert not re.search(r"https?://|@import|url\(", page)
    assert reader.headings > len(CHECKS) * 3


def test_the_page_has_the_mcp_servers_too() -> None:
    findings = [
        Finding(check="list", verdict="pass", detail="3 tools", seconds=0.25),
        Finding(check="call", verdict="fail", detail="<b>search</b>", advice="its output: none"),
    ]
    page = render_html([diagnosis("one")], ORIGIN, [PartDiagnosis("notes", findings)])
    reader = Reader(page)
    assert reader.open == []
    section = page.split('<h2 id="servers">')[1].split("</section>")[0]
    for text in ("0 of 1 without failures", "notes", "3 tools", "250 ms", "&lt;b&gt;search", "its output: none"):
        assert text in section
    assert 'id="servers"' not in render_html([diagnosis("one")], ORIGIN)


def test_the_page_begins_with_failures_and_their_transcripts() -> None:
    page = render_html([diagnosis("sound"), diagnosis("worse", "tools", "stop"), diagnosis("bad", "tools")], ORIGIN)
    assert page.index(">worse</a><small>") < page.index(">bad</a><small>") < page.index(">sound</a><small>")
    cards = page[page.index("What to do") : page.index("<caption>Checks")]
    assert cards.count("<article ") == 1, "one card for one advice"
    assert cards.count("<li>") == 3
    assert cards.count("Mend &lt;it&gt;.") == 1
    for shown in ("{&quot;input&quot;:&quot;&lt;i&gt;&quot;}", "&lt;u&gt;", "&lt;b&gt;why"):
        assert shown in cards
    assert "<i>" not in page
    assert Reader(page).open == []


def test_the_advice_for_most_failures_is_first() -> None:
    findings = [replace(each, advice="Rare.") if each.check == "stop" else each for each in FAILING.findings]
    page = render_html([replace(FAILING, findings=tuple(findings))], ORIGIN)
    assert page.index("<h3>Mend &lt;it&gt;.</h3>") < page.index("<h3>Rare.</h3>")


def test_every_cell_leads_to_its_advice_or_to_its_remarks() -> None:
    page = render_html([FAILING], ORIGIN)
    overview = page[: page.index("What to do")]
    assert overview.count('<td><a class="fail" href="#advice-0">') == 3
    assert '<td><a class="pass" href="#model-0-text">' in overview
    assert '<td><a class="skipped" href="#model-0-errors">' in overview


def test_a_report_names_product_version_date_configuration_and_scores() -> None:
    page = render_html([FAILING, diagnosis("sound")], ORIGIN)
    for fact in ("responses-gateway 1.2.3", "2026-11-23T08:00:00Z", "<code>abc123</code>"):
        assert fact in page
    assert "<td><b>29 of 32</b></td><td><b>32 of 32</b></td>" in page
    reply = json.loads(render_json([FAILING], ORIGIN))
    assert reply["product"] == "responses-gateway"
    assert (reply["product_version"], reply["date"], reply["config_digest"]) == (
        "1.2.3",
        "2026-11-23T08:00:00Z",
        "abc123",
    )


def test_a_page_without_failures_has_no_advice() -> None:
    assert "What to do" not in render_html([diagnosis("sound")], ORIGIN)


@pytest.mark.parametrize("verdict", VERDICTS)
def test_the_page_has_a_word_and_a_colour_for_every_verdict(verdict: Verdict) -> None:
    page = render_html([], ORIGIN)
    assert f".{verdict} " in page
    assert f"--{verdict}:" in page
    assert f"</span> {verdict}</span>" in page
