"""gateway/pages/home_page.py: what the home page shows, and its examples."""

import json
import shlex
from dataclasses import replace

import pytest

from gateway.pages.home_page import (
    HomePage,
    HomePageFacts,
    ListedModel,
    Note,
    UpstreamCondition,
    build_home_page,
    describe_result,
    render_curl,
    render_python,
)
from gateway.pages.saved_report import SavedCheck, SavedReport, SavedResult, Verdict

ODD_NAMES = ["demo", "it's", 'a"b', "$(id)`id`", "<script>alert(1)</script>", "a\\b", "日本語", "a&amp;b", "a\nb"]
FACTS = HomePageFacts(
    version="1.2.3",
    status="ready",
    base_url="http://host:1",
    needs_key=False,
    models=[ListedModel("demo", ("p",))],
    config_digest="abc",
)
RESULT = SavedResult(
    model="demo",
    provider="p",
    date="2026-11-23T08:00:00Z",
    product_version="1.2.3",
    config_digest="abc",
    checks=(
        SavedCheck(title="Text", verdict="pass"),
        SavedCheck(title="Tools", verdict="fail", detail="<i>no</i> flags", advice="Start <it> again."),
        SavedCheck(title="Chat tools", verdict="fail", detail="none", advice="Start <it> again."),
        SavedCheck(title="Images", verdict="skipped", detail="cannot tell"),
    ),
)


def build(**changes: object) -> HomePage:
    return build_home_page(replace(FACTS, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_model_has_examples_that_name_it(name: str) -> None:
    [model] = build(models=[ListedModel(name, ("<p>",))]).models or ()
    assert (model.name, model.providers) == (name, ("<p>",))
    examples = {example.kind: example.text for example in model.examples}
    assert examples == {
        "curl": render_curl("http://host:1", name, needs_key=False),
        "python": render_python("http://host:1", name, needs_key=False),
    }
    words = shlex.split(examples["curl"])
    assert words[:2] == ["curl", "http://host:1/v1/responses"]
    assert json.loads(words[words.index("-d") + 1])["model"] == name


@pytest.mark.parametrize("name", [*ODD_NAMES, "http://host:1"])
def test_the_first_occurrence_of_the_address_in_an_example_is_the_address(name: str) -> None:
    [model] = build(models=[ListedModel(name, ("p",))]).models or ()
    for example in model.examples:
        before, address, after = example.text.partition("http://host:1")
        assert address
        assert before.endswith(("curl ", 'base_url="'))
        assert after.startswith("/v1")


@pytest.mark.parametrize("name", ODD_NAMES)
def test_the_python_example_names_the_model(name: str) -> None:
    program = render_python("http://host:1", name, needs_key=False)
    assert f"model={json.dumps(name, ensure_ascii=False)}" in program
    compile(program, "example", "exec")


def test_examples_read_the_key_from_the_environment() -> None:
    assert '-H "Authorization: Bearer $GATEWAY_KEY"' in render_curl("http://host:1", "m", needs_key=True)
    program = render_python("http://host:1", "m", needs_key=True)
    assert 'api_key=os.environ["GATEWAY_KEY"]' in program
    assert program.startswith("import os\n")
    assert "KEY" not in render_curl("http://host:1", "m", needs_key=False)


def test_a_reader_without_a_key_gets_no_model_and_no_report() -> None:
    page = build(models=None, needs_key=True, config_digest="")
    assert page.models is None
    assert (page.patterns, page.results, page.report_problem, page.config_digest) == ((), [], "", "")


def test_the_status_has_its_notes() -> None:
    page = build(status="degraded", notes=[Note("Store", "<gone>")])
    assert (page.status, page.notes) == ("degraded", [Note("Store", "<gone>")])


def test_a_report_has_a_score_and_each_advice_once() -> None:
    [result] = build(report=SavedReport(results=(RESULT,))).results
    assert (result.model, result.score) == ("demo", "1 of 3")
    assert [(each.count, each.meaning) for each in result.counts] == [(1, "passed"), (2, "failed"), (1, "skipped")]
    assert [(each.titles, each.advice) for each in result.failures] == [(["Tools", "Chat tools"], "Start <it> again.")]
    assert result.checks == RESULT.checks
    assert result.date == "2026-11-23T08:00:00Z"
    assert not result.config_changed


def test_a_report_of_another_configuration_is_marked() -> None:
    report = SavedReport(results=(RESULT.model_copy(update={"config_digest": "old"}),))
    assert build(report=report).results[0].config_changed


def test_a_report_that_is_missing_or_unreadable_is_mentioned() -> None:
    assert build().results == []
    assert build(report_problem="report.json is broken").report_problem == "report.json is broken"


def test_many_models_are_cut_and_patterns_are_listed() -> None:
    models = [ListedModel(f"m{number}", ("p",)) for number in range(250)]
    page = build(models=models, patterns=[ListedModel("gpt-*", ("o",))])
    assert (len(page.models or ()), page.hidden_models) == (200, 50)
    assert page.patterns == [ListedModel("gpt-*", ("o",))]


def test_models_that_cannot_be_used_come_last_and_clients_get_the_first() -> None:
    upstreams = [
        UpstreamCondition("dead", "vllm", False, "it refuses connections"),
        UpstreamCondition("p", "demo", True, "ready"),
        UpstreamCondition("unknown", "openai", None, "not examined"),
    ]
    models = [ListedModel("a", ("dead",)), ListedModel("b", ("unknown",)), ListedModel("c", ("p",))]
    page = build(models=models, upstreams=upstreams)
    assert [(model.name, model.problem) for model in page.models or ()] == [
        ("b", ""),
        ("c", ""),
        ("a", "it refuses connections"),
    ]
    assert "--model b" in page.clients[0].text
    assert page.upstreams == upstreams
    assert build(models=[]).clients == ()
    assert build(models=None).clients == ()


@pytest.mark.parametrize(
    ("usable", "problem"),
    [
        ({"a": True, "b": True}, ""),
        ({"a": False, "b": True}, ""),
        ({"a": True, "b": False}, ""),
        ({"a": False, "b": None}, ""),
        ({"a": False}, ""),
        ({"a": False, "b": False}, "a: it is away; b: it is away"),
    ],
)
def test_a_model_of_several_providers_has_a_problem_if_none_can_be_used(
    usable: dict[str, bool | None], problem: str
) -> None:
    upstreams = [UpstreamCondition(name, "vllm", can, "it is away") for name, can in usable.items()]
    [model] = build(models=[ListedModel("m", ("a", "b"))], upstreams=upstreams).models or ()
    assert (model.providers, model.problem) == (("a", "b"), problem)


@pytest.mark.parametrize(
    ("verdicts", "summary"),
    [
        ({}, "Nothing could be examined."),
        ({"A": "skipped"}, "Nothing could be examined. One could not be tried."),
        ({"A": "pass"}, "It works."),
        ({"A": "pass", "B": "pass"}, "All 2 features that were tried work."),
        ({"A": "pass", "B": "fail"}, "One feature works. “B” does not: below is what to do."),
        ({"A": "fail", "B": "fail", "C": "fail"}, "0 features work. “A”, “B” and “C” do not: below is what to do."),
        (
            {"A": "pass", "B": "refused", "C": "skipped", "D": "skipped"},
            "It works. Its upstream cannot do this, and requests for it are refused: “B”. 2 could not be tried.",
        ),
    ],
)
def test_a_result_is_described_in_plain_words(verdicts: dict[str, Verdict], summary: str) -> None:
    checks = tuple(SavedCheck(title=title, verdict=verdict) for title, verdict in verdicts.items())
    assert describe_result(RESULT.model_copy(update={"checks": checks})) == summary
