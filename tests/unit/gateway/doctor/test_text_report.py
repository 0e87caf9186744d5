"""The doctor's results as a table, and as JSON."""

import json
import re
from dataclasses import replace

from gateway.doctor.checks.check_list import CHECKS
from gateway.doctor.checks.verdicts import Finding
from gateway.doctor.text_report import count_verdicts, format_duration, render_json, render_text
from tests.unit.gateway.doctor.diagnoses import ORIGIN, diagnosis


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


def test_other_verdicts_have_reasons_and_losses_are_listed() -> None:
    text = render_text([diagnosis("one", "tools")])
    assert "  fail Tools: call and result: <b>why</b> & so" in text
    assert "  skipped Errors: <b>why</b> & so" in text
    assert "  losses: stop=dropped" in text
    assert text.endswith("1 model: 31 passed, 1 failed, 0 refused, 1 skipped")


def test_failures_have_advice_and_equal_advice_is_given_once() -> None:
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


def test_only_verdicts_are_coloured() -> None:
    plain, painted = render_text([diagnosis("pass")]), render_text([diagnosis("pass")], lambda word: f"[{word}]")
    assert painted.splitlines()[0] == plain.splitlines()[0] == "FEATURE                        pass"
    assert re.sub(r"[\[\]]", "", painted) == plain


def test_models_that_do_not_fit_are_listed_below() -> None:
    many = [diagnosis(f"model-{number:02}") for number in range(9)]
    lines = render_text(many, width=80).splitlines()
    heads = [line.split()[1:] for line in lines if line.startswith("FEATURE")]
    assert [name for head in heads for name in head] == [each.model for each in many]
    assert len(heads) == 2
    assert all(len(line) <= 80 for line in lines[: lines.index("") + 1])
    assert [line for line in render_text([diagnosis("m" * 200)], width=20).splitlines() if "FEATURE" in line] != []


def test_the_json_report_has_everything_and_the_overall_result() -> None:
    reply = json.loads(render_json([diagnosis("one", "tools"), diagnosis("two")], ORIGIN))
    assert (reply["version"], reply["ok"]) == (1, False)
    assert [(each["model"], each["ok"]) for each in reply["backends"]] == [("one", False), ("two", True)]
    one = reply["backends"][0]
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


def test_every_verdict_is_counted() -> None:
    assert count_verdicts([diagnosis("one", "tools"), diagnosis("two")]) == {
        "pass": 63,
        "fail": 1,
        "refused": 0,
        "skipped": 2,
    }


def test_durations_are_formatted_for_people() -> None:
    assert (format_duration(None), format_duration(0.0123), format_duration(75.04)) == ("-", "12 ms", "75.0 s")
