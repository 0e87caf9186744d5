"""gateway/doctor: which models are chosen, and what is printed, written and returned of what was found."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gateway.config.settings import Settings, parse_settings
from gateway.doctor.checks.responses import CHECKS
from gateway.doctor.checks.subjects import NothingToExamine, prepare_examination, select_models
from gateway.doctor.checks.verdicts import Diagnosis, Finding, Verdict
from gateway.doctor.html_report import render_html
from gateway.doctor.mcp_servers import ServerDiagnosis
from gateway.doctor.report_origin import ReportOrigin, describe_origin, save_results
from gateway.doctor.text_report import count_verdicts, format_duration, render_json, render_text
from gateway.pages.saved_report import read_report
from providers.registry import build_provider

VERDICTS: tuple[Verdict, ...] = ("pass", "fail", "refused", "skipped")


def diagnosis(model: str = "m", *failing: str, **changes: str) -> Diagnosis:
    """All checks pass but those named; what is skipped is said for a reason."""
    findings = [
        Finding(
            check=check.name,
            verdict="fail" if check.name in failing else "skipped" if check.name == "errors" else "pass",
            detail="<b>why</b> & so" if check.name in (*failing, "errors") else "",
            asked='POST /v1/responses\n{"input":"<i>"}' if check.name in failing else "",
            came='200\n{"output":"<u>"}' if check.name in failing else "",
            advice="Mend <it>." if check.name in failing else "",
            losses=("stop=dropped",) if check.name == "stop" else (),
            seconds=0.5,
            first_token_s=0.0123 if check.name == "streaming" else None,
        )
        for check in CHECKS
    ]
    facts = {"provider": "p", "provider_type": "vllm", "upstream_model": "org/m", **changes}
    return Diagnosis(model=model, findings=tuple(findings), capabilities={"tools": True}, **facts)


FAILING = diagnosis("failing", "tools", "tools_streamed", "stop")
ORIGIN = ReportOrigin(product_version="1.2.3", date="2026-11-23T08:00:00Z", config_digest="abc123")


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


def test_the_table_has_a_row_for_every_feature_and_a_column_for_every_model() -> None:
    text = render_text([diagnosis("one", "tools"), diagnosis("two")])
    head, providers, *rows = text.splitlines()
    assert head.split() == ["FEATURE", "one", "two"]
    assert providers.split() == ["p", "p"]
    assert [row.split("  ")[0] for row in rows[: len(CHECKS)]] == [check.title for check in CHECKS]
    row = next(row for row in rows if row.startswith("Tools: call and result"))
    assert row.split()[-2:] == ["fail", "pass"]
    assert "Time to first token" in text
    assert "12 ms" in text


def test_what_is_no_pass_has_its_reason_and_what_is_lost_is_named() -> None:
    text = render_text([diagnosis("one", "tools")])
    assert "  fail Tools: call and result: <b>why</b> & so" in text
    assert "  skipped Errors: <b>why</b> & so" in text
    assert "  losses: stop=dropped" in text
    assert text.endswith("1 model: 28 passed, 1 failed, 0 refused, 1 skipped")


def test_of_a_fail_there_is_what_to_do_and_the_same_advice_is_given_once() -> None:
    lines = render_text([diagnosis("one", "tools", "stop")]).splitlines()
    assert lines[lines.index("  fail Stop sequences: <b>why</b> & so") + 1] == "    Mend <it>."
    assert lines.count("    Mend <it>.") == 1


def test_features_that_are_skipped_for_one_reason_have_one_line() -> None:
    silent = [Finding(check=check.name, verdict="skipped", detail="the check Text got no reply") for check in CHECKS]
    few = [replace(each, detail=each.detail if number else "alone") for number, each in enumerate(silent)]
    text = render_text([replace(diagnosis("one"), findings=tuple(few))])
    assert "  skipped Text: alone" in text
    assert text.count("the check Text got no reply") == 1
    assert f"  skipped {len(CHECKS) - 1} features: the check Text got no reply" in text


def test_verdicts_are_painted_and_nothing_else_is() -> None:
    plain, painted = render_text([diagnosis("pass")]), render_text([diagnosis("pass")], lambda word: f"[{word}]")
    assert painted.splitlines()[0] == plain.splitlines()[0] == "FEATURE                        pass"
    assert re.sub(r"[\[\]]", "", painted) == plain


def test_models_that_do_not_fit_beside_each_other_come_below() -> None:
    many = [diagnosis(f"model-{number:02}") for number in range(9)]
    lines = render_text(many, width=80).splitlines()
    heads = [line.split()[1:] for line in lines if line.startswith("FEATURE")]
    assert [name for head in heads for name in head] == [each.model for each in many]
    assert len(heads) == 2
    assert all(len(line) <= 80 for line in lines[: lines.index("") + 1])
    assert [line for line in render_text([diagnosis("m" * 200)], width=20).splitlines() if "FEATURE" in line] != []


def test_json_says_everything_and_whether_all_is_well() -> None:
    said = json.loads(render_json([diagnosis("one", "tools"), diagnosis("two")], ORIGIN))
    assert (said["version"], said["ok"]) == (1, False)
    assert [(each["model"], each["ok"]) for each in said["backends"]] == [("one", False), ("two", True)]
    one = said["backends"][0]
    assert one["capabilities"] == {"tools": True}
    assert (one["type"], one["upstream_model"], one["first_token_s"]) == ("vllm", "org/m", 0.0123)
    assert one["losses"] == ["stop=dropped"]
    assert [each["check"] for each in one["checks"]] == [check.name for check in CHECKS]
    assert one["checks"][1] == {
        "check": "streaming",
        "verdict": "pass",
        "detail": "",
        "losses": [],
        "seconds": 0.5,
        "first_token_s": 0.0123,
        "asked": "",
        "came": "",
        "advice": "",
    }
    assert json.loads(render_json([diagnosis()], ORIGIN))["ok"] is True


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
    page = render_html([diagnosis("one")], ORIGIN, [ServerDiagnosis("notes", findings)])
    reader = Reader(page)
    assert reader.open == []
    section = page.split('<h2 id="servers">')[1].split("</section>")[0]
    for text in ("0 of 1 without failures", "notes", "3 tools", "250 ms", "&lt;b&gt;search", "its output: none"):
        assert text in section
    assert 'id="servers"' not in render_html([diagnosis("one")], ORIGIN)


def test_the_page_begins_with_what_fails_and_shows_how_it_was_found() -> None:
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


def test_the_advice_that_mends_most_comes_first() -> None:
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
    assert "<td><b>26 of 29</b></td><td><b>29 of 29</b></td>" in page
    said = json.loads(render_json([FAILING], ORIGIN))
    assert said["product"] == "responses-gateway"
    assert (said["product_version"], said["date"], said["config_digest"]) == ("1.2.3", "2026-11-23T08:00:00Z", "abc123")


def test_the_origin_of_a_report_names_no_key_and_changes_with_the_models() -> None:
    provider = {"type": "openai", "api_key": "sk-first"}
    tree = {"providers": {"p": provider}, "models": {"m": {"provider": "p"}}}
    first = describe_origin(parse_settings(tree, environ={}))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", first.date)

    def digest(**changes: object) -> str:
        return describe_origin(parse_settings({**tree, **changes}, environ={})).config_digest

    assert digest(server={"port": 9999}, store={"url": None}) == first.config_digest
    assert digest(providers={"p": {**provider, "api_key": "sk-second"}}) == first.config_digest
    assert digest(models={"n": {"provider": "p"}}) != first.config_digest


def test_saved_results_have_advice_and_no_requests(tmp_path: Path) -> None:
    save_results(tmp_path / "report.json", [FAILING], ORIGIN)
    content = (tmp_path / "report.json").read_text()
    report = read_report(tmp_path / "report.json")
    assert report is not None
    [result] = report.results
    assert (result.model, result.count("fail"), result.date) == ("failing", 3, ORIGIN.date)
    assert "Mend <it>." in content
    assert "POST /v1" not in content


def test_a_page_of_what_is_sound_has_no_failures() -> None:
    assert "What to do" not in render_html([diagnosis("sound")], ORIGIN)


@pytest.mark.parametrize("verdict", VERDICTS)
def test_the_page_has_a_word_and_a_colour_for_every_verdict(verdict: Verdict) -> None:
    page = render_html([], ORIGIN)
    assert f".{verdict} " in page
    assert f"--{verdict}:" in page
    assert f"</span> {verdict}</span>" in page


def test_every_verdict_is_counted() -> None:
    assert count_verdicts([diagnosis("one", "tools"), diagnosis("two")]) == {
        "pass": 57,
        "fail": 1,
        "refused": 0,
        "skipped": 2,
    }


def test_times_are_for_people() -> None:
    assert (format_duration(None), format_duration(0.0123), format_duration(75.04)) == ("-", "12 ms", "75.0 s")


def settings() -> Settings:
    models = {
        "a": {"provider": "one", "capabilities": {"images": False}, "strict": True},
        "b": {"provider": "two", "model": "org/b"},
        "c-*": {"provider": "two"},
    }
    return parse_settings(
        {"providers": {"one": {"type": "scripted"}, "two": {"type": "scripted"}}, "models": models}, environ={}
    )


def test_all_models_that_are_no_patterns_are_chosen_or_those_that_are_named() -> None:
    assert list(select_models(settings(), [])) == ["a", "b"]
    assert list(select_models(settings(), ["c-1", "a"])) == ["c-1", "a"]


@pytest.mark.parametrize(
    ("names", "words"), [(["c-*"], "c-* is a pattern"), (["d"], "no model of the config is called d; there are: a, b")]
)
def test_names_that_are_no_models_are_told(names: list[str], words: str) -> None:
    with pytest.raises(NothingToExamine, match=re.escape(words)):
        select_models(settings(), names)


def test_a_configuration_of_patterns_needs_a_name() -> None:
    only = settings().model_copy(update={"models": {"*": settings().models["c-*"]}})
    with pytest.raises(NothingToExamine, match="--model"):
        select_models(only, [])


def test_the_gateway_that_is_examined_has_a_key_of_its_own_and_keeps_nothing() -> None:
    given = settings()
    providers = {name: build_provider(name, config) for name, config in given.providers.items()}
    through, subjects, key = prepare_examination(given, select_models(given, ["a", "c-1"]), providers)
    assert through.store.url is None
    assert through.auth is not None
    assert [each.secret for each in through.auth.keys] == [key]
    assert len(key) > 30
    assert list(through.models) == [
        "a",
        "c-1",
        *(f"{name}-{number}" for name in ("doctor-no-such-model", "doctor-tools") for number in (0, 1)),
    ]
    assert (through.models["a"].model, through.models["c-1"].model) == ("a", "c-1")
    first, second = subjects
    assert (first.capabilities.images, first.strict, second.capabilities.images) == (False, True, True)
