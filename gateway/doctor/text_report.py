"""Renders diagnoses as text for a terminal, and as JSON for programs."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Final, get_args

import orjson

from gateway.doctor.checks.check_list import CHECKS
from gateway.doctor.checks.verdicts import Diagnosis, Finding, Verdict
from gateway.doctor.report_origin import PRODUCT, ReportOrigin
from gateway.terminal_text import format_table
from translation.representation.json_types import Json

_MIN_COLUMN_WIDTH: Final = 10
"""The narrowest column in characters: a verdict or a time, and the space after it."""

_VERDICT_PATTERN: Final = re.compile("|".join(get_args(Verdict)))

_MAX_EQUAL_SKIPS: Final = 3
"""Up to this many features that are skipped for the same reason get a line each. More features share one line."""

_FROM_SECONDS_S: Final = 10.0

REPORT_VERSION: Final = 1
"""The version of the JSON report. It increases if the meaning of an existing key changes."""

_REPORT_KEYS: Final = {"request_text": "asked", "reply_text": "came"}
"""Field of a finding -> its key in the JSON report, if the two differ."""


_NOTHING: Final[Mapping[str, Json]] = MappingProxyType({})


def render_json(
    diagnoses: Sequence[Diagnosis],
    origin: ReportOrigin,
    servers: Sequence[Json] = (),
    others: Mapping[str, Json] = _NOTHING,
) -> bytes:
    """Returns the report as one JSON object. `ok` is false if any check failed. `servers` are MCP servers, and `others`
    what else was examined, by its key in the report."""
    examined = [*servers, *others.values()]
    backends = [
        {
            "model": diagnosis.model,
            "provider": diagnosis.provider,
            "type": diagnosis.provider_type,
            "upstream_model": diagnosis.upstream_model,
            "ok": not diagnosis.failed,
            "first_token_s": _round_seconds(diagnosis.first_token_s),
            "losses": diagnosis.losses,
            "capabilities": diagnosis.capabilities,
            "checks": [_finding_object(finding) for finding in diagnosis.findings],
        }
        for diagnosis in diagnoses
    ]
    report = {
        "version": REPORT_VERSION,
        "product": PRODUCT,
        **asdict(origin),
        "ok": not any(diagnosis.failed for diagnosis in diagnoses) and all(each["ok"] for each in examined),
        "backends": backends,
        **({"mcp_servers": servers} if servers else {}),
        **others,
    }
    return orjson.dumps(report, option=orjson.OPT_INDENT_2)


def render_text(diagnoses: Sequence[Diagnosis], paint: Callable[[str], str] = str, width: int = 80) -> str:
    """Returns a table of features and models, followed by the details of each finding other than a pass.

    `paint` may add colours to a verdict. Models that do not fit into `width` characters get a table below.
    """
    lines: list[str] = []
    for group in _group_by_width(diagnoses, width):
        lines += [*_render_grid(group, paint), ""]
    for diagnosis in diagnoses:
        lines += _render_remarks(diagnosis, paint)
    return "\n".join([*lines, render_summary(diagnoses)])


def render_summary(diagnoses: Sequence[Diagnosis]) -> str:
    """Returns one line with the number of findings per verdict."""
    counts = count_verdicts(diagnoses)
    models = f"{len(diagnoses)} model{'' if len(diagnoses) == 1 else 's'}"
    words = {"pass": "passed", "fail": "failed"}
    return f"{models}: " + ", ".join(f"{number} {words.get(verdict, verdict)}" for verdict, number in counts.items())


def render_score(diagnosis: Diagnosis) -> str:
    """Returns the number of checks of a model that passed, of all that passed or failed: "21 of 22"."""
    counts = count_verdicts([diagnosis])
    return f"{counts['pass']} of {counts['pass'] + counts['fail']}"


def count_verdicts(diagnoses: Sequence[Diagnosis]) -> dict[Verdict, int]:
    """Returns the number of findings per verdict."""
    counts: dict[Verdict, int] = {"pass": 0, "fail": 0, "refused": 0, "skipped": 0}
    for diagnosis in diagnoses:
        for finding in diagnosis.findings:
            counts[finding.verdict] += 1
    return counts


def format_duration(seconds: float | None) -> str:
    """Renders a duration for people: milliseconds below ten seconds, and "-" for None."""
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.0f} ms" if seconds < _FROM_SECONDS_S else f"{seconds:.1f} s"


def _group_by_width(diagnoses: Sequence[Diagnosis], width: int) -> list[list[Diagnosis]]:
    groups: list[list[Diagnosis]] = []
    left = 0
    for diagnosis in diagnoses:
        needed = max(_MIN_COLUMN_WIDTH, len(diagnosis.model) + 2, len(diagnosis.provider) + 2)
        if not groups or needed > left:
            groups.append([])
            left = width - max(len(check.title) for check in CHECKS)
        groups[-1].append(diagnosis)
        left -= needed
    return groups


def _render_grid(diagnoses: Sequence[Diagnosis], paint: Callable[[str], str]) -> list[str]:
    rows = [
        ("FEATURE", *(diagnosis.model for diagnosis in diagnoses)),
        ("", *(diagnosis.provider for diagnosis in diagnoses)),
    ]
    for number, check in enumerate(CHECKS):
        rows.append((check.title, *(diagnosis.findings[number].verdict for diagnosis in diagnoses)))
    rows.append(("Time to first token", *(format_duration(diagnosis.first_token_s) for diagnosis in diagnoses)))
    head, providers, *body, last = format_table(rows)
    painted = [_VERDICT_PATTERN.sub(lambda match: paint(match[0]), line) for line in body]
    return [head, providers, *painted, last]


def _render_remarks(diagnosis: Diagnosis, paint: Callable[[str], str]) -> list[str]:
    titles = {check.name: check.title for check in CHECKS}
    findings = [finding for finding in diagnosis.findings if finding.verdict != "pass"]
    skipped = Counter(finding.detail for finding in findings if finding.verdict == "skipped")
    lines: list[str] = []
    given_advice: set[str] = set()
    for finding in findings:
        title = titles[finding.check]
        if finding.verdict == "skipped" and (equal_skips := skipped[finding.detail]) > _MAX_EQUAL_SKIPS:
            title = f"{equal_skips} features"
        line = f"  {paint(finding.verdict)} {title}: {finding.detail}"
        if line not in lines:
            lines.append(line)
        if finding.advice not in given_advice | {""}:
            lines.append(f"    {finding.advice}")
            given_advice.add(finding.advice)
    if diagnosis.losses:
        lines.append(f"  losses: {', '.join(diagnosis.losses)}")
    return [f"{diagnosis.model} ({diagnosis.provider})", *lines, ""] if lines else []


def _finding_object(finding: Finding) -> dict[str, object]:
    return {
        **{_REPORT_KEYS.get(name, name): value for name, value in asdict(finding).items()},
        "seconds": _round_seconds(finding.seconds),
        "first_token_s": _round_seconds(finding.first_token_s),
    }


def _round_seconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)
