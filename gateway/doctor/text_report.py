"""Diagnoses as text for a terminal, and as JSON for programs."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Final, get_args

import orjson

from gateway.doctor.checks.responses import CHECKS
from gateway.doctor.checks.verdicts import Diagnosis, Finding, Verdict
from gateway.text_table import format_table

_MIN_COLUMN_WIDTH: Final = 10
"""Of a column under its head: a verdict or a time, and the space after it."""

_VERDICT_PATTERN: Final = re.compile("|".join(get_args(Verdict)))

_MAX_EQUAL_SKIPS: Final = 3
"""Features that are skipped for the same reason, each on a line of its own."""

_FROM_SECONDS_S: Final = 10.0

REPORT_VERSION: Final = 1
"""Of the JSON; a new one where what is there changes its meaning."""


def render_json(diagnoses: Sequence[Diagnosis]) -> bytes:
    """One object. `ok` is false where anything failed."""
    backends = [
        {
            "model": each.model,
            "provider": each.provider,
            "type": each.provider_type,
            "upstream_model": each.upstream_model,
            "ok": not each.failed,
            "first_token_s": _round_seconds(each.first_token_s),
            "losses": each.losses,
            "capabilities": each.capabilities,
            "checks": [_finding_object(finding) for finding in each.findings],
        }
        for each in diagnoses
    ]
    report = {"version": REPORT_VERSION, "ok": not any(each.failed for each in diagnoses), "backends": backends}
    return orjson.dumps(report, option=orjson.OPT_INDENT_2)


def render_text(diagnoses: Sequence[Diagnosis], paint: Callable[[str], str] = str, width: int = 80) -> str:
    """A table of features and models, and what there is to say of each finding that is no pass.

    `paint` may put colours around a verdict. Models that do not fit beside each other in `width` come below.
    """
    lines: list[str] = []
    for group in _group_by_width(diagnoses, width):
        lines += [*_render_grid(group, paint), ""]
    for each in diagnoses:
        lines += _render_remarks(each, paint)
    return "\n".join([*lines, render_summary(diagnoses)])


def render_summary(diagnoses: Sequence[Diagnosis]) -> str:
    """How many findings of each kind there are."""
    counts = count_verdicts(diagnoses)
    models = f"{len(diagnoses)} model{'' if len(diagnoses) == 1 else 's'}"
    words = {"pass": "passed", "fail": "failed"}
    return f"{models}: " + ", ".join(f"{number} {words.get(verdict, verdict)}" for verdict, number in counts.items())


def count_verdicts(diagnoses: Sequence[Diagnosis]) -> dict[Verdict, int]:
    """How many findings there are of each verdict."""
    counts: dict[Verdict, int] = {"pass": 0, "fail": 0, "refused": 0, "skipped": 0}
    for each in diagnoses:
        for finding in each.findings:
            counts[finding.verdict] += 1
    return counts


def format_duration(seconds: float | None) -> str:
    """For people."""
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.0f} ms" if seconds < _FROM_SECONDS_S else f"{seconds:.1f} s"


def _group_by_width(diagnoses: Sequence[Diagnosis], width: int) -> list[list[Diagnosis]]:
    groups: list[list[Diagnosis]] = []
    left = 0
    for each in diagnoses:
        needed = max(_MIN_COLUMN_WIDTH, len(each.model) + 2, len(each.provider) + 2)
        if not groups or needed > left:
            groups.append([])
            left = width - max(len(check.title) for check in CHECKS)
        groups[-1].append(each)
        left -= needed
    return groups


def _render_grid(diagnoses: Sequence[Diagnosis], paint: Callable[[str], str]) -> list[str]:
    rows = [("FEATURE", *(each.model for each in diagnoses)), ("", *(each.provider for each in diagnoses))]
    for number, check in enumerate(CHECKS):
        rows.append((check.title, *(each.findings[number].verdict for each in diagnoses)))
    rows.append(("Time to first token", *(format_duration(each.first_token_s) for each in diagnoses)))
    head, providers, *body, last = format_table(rows)
    painted = [_VERDICT_PATTERN.sub(lambda found: paint(found[0]), line) for line in body]
    return [head, providers, *painted, last]


def _render_remarks(diagnosis: Diagnosis, paint: Callable[[str], str]) -> list[str]:
    titles = {check.name: check.title for check in CHECKS}
    remarkable = [finding for finding in diagnosis.findings if finding.verdict != "pass"]
    skipped = Counter(finding.detail for finding in remarkable if finding.verdict == "skipped")
    lines: list[str] = []
    advised: set[str] = set()
    for finding in remarkable:
        title = titles[finding.check]
        if finding.verdict == "skipped" and (equal_skips := skipped[finding.detail]) > _MAX_EQUAL_SKIPS:
            title = f"{equal_skips} features"
        line = f"  {paint(finding.verdict)} {title}: {finding.detail}"
        if line not in lines:
            lines.append(line)
        if finding.advice not in advised | {""}:
            lines.append(f"    {finding.advice}")
            advised.add(finding.advice)
    if diagnosis.losses:
        lines.append(f"  lost on the way: {', '.join(diagnosis.losses)}")
    return [f"{diagnosis.model} ({diagnosis.provider})", *lines, ""] if lines else []


def _finding_object(finding: Finding) -> dict[str, object]:
    return {
        **asdict(finding),
        "seconds": _round_seconds(finding.seconds),
        "first_token_s": _round_seconds(finding.first_token_s),
    }


def _round_seconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)
