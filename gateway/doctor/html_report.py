"""Renders diagnoses as one self-contained HTML page, with a light and a dark theme.

The page is a file that is mailed and archived: it is complete without a server, and without scripts.
"""

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

from gateway.doctor.checks.check_list import CHECKS
from gateway.doctor.checks.verdicts import Diagnosis, Finding
from gateway.doctor.part_diagnosis import MCP_SERVER, PartDiagnosis
from gateway.doctor.report_origin import PRODUCT, ReportOrigin
from gateway.doctor.text_report import format_duration, render_score, render_summary
from gateway.pages.static_files import read_styles

_SYMBOLS: Final = {"pass": "✓", "fail": "✗", "refused": "⊘", "skipped": "…"}
"""Symbols beside the verdicts, for people who cannot distinguish the colours."""

_TITLES: Final = {check.name: check.title for check in CHECKS}

_LEGEND: Final = (
    ("pass", "it works"),
    ("fail", "it is declared but does not work"),
    ("refused", "it is not available, and the gateway reports it by name"),
    ("skipped", "the check could not decide, for the reason given"),
)


class _Failure(NamedTuple):
    """A failed check, with the position of its model on the page."""

    number: int
    diagnosis: Diagnosis
    finding: Finding


def render_html(diagnoses: Sequence[Diagnosis], origin: ReportOrigin, servers: Sequence[PartDiagnosis] = ()) -> str:
    """Returns an HTML document. Models with more failed checks come first. `servers` are the MCP servers."""
    diagnoses = sorted(
        diagnoses, key=lambda diagnosis: -sum(finding.verdict == "fail" for finding in diagnosis.findings)
    )
    legend = " ".join(f"{_render_verdict(verdict)} <span class=faint>{meaning}.</span>" for verdict, meaning in _LEGEND)
    cards = _group_by_advice(diagnoses)
    sections = "\n".join(_render_model(number, diagnosis) for number, diagnosis in enumerate(diagnoses))
    content = f"""<main>
<h1>What each model can do</h1>
<p class="faint">{PRODUCT} {escape(origin.product_version)}, <time>{escape(origin.date)}</time>,
configuration <code>{escape(origin.config_digest)}</code></p>
<p>{escape(render_summary(diagnoses))}.</p>
<p>{legend}</p>
<p class="faint">The score is the number of checks that passed, of those that passed or failed.</p>
<div class="scroll" role="region" aria-label="All models" tabindex="0">
{_render_overview(diagnoses, cards)}
</div>
{_render_cards(cards)}
{_render_servers(servers)}
{sections}
</main>"""
    return _build_document(f"{PRODUCT} doctor: {render_summary(diagnoses)}", content)


def _build_document(title: str, content: str) -> str:
    """Returns a document with `content`, which is HTML, in its body.

    Its policy allows its style and nothing else, so text that is not escaped by mistake can still not run as a script.
    """
    style = read_styles("base.css", "report.css")
    # CSP 3, section 2.3.1: the digest of an inline element allows exactly this element.
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="content-security-policy" content="default-src 'none'; img-src data:; style-src 'sha256-{digest}'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
{content}
</body>
</html>
"""


def _group_by_advice(diagnoses: Sequence[Diagnosis]) -> list[tuple[str, list[_Failure]]]:
    """Returns the failed checks by the advice that fixes them, the advice that fixes most first."""
    failures_by_advice: dict[str, list[_Failure]] = {}
    for number, diagnosis in enumerate(diagnoses):
        for finding in diagnosis.findings:
            if finding.verdict == "fail":
                failures_by_advice.setdefault(finding.advice, []).append(_Failure(number, diagnosis, finding))
    return sorted(failures_by_advice.items(), key=lambda card: -len(card[1]))


def _render_overview(diagnoses: Sequence[Diagnosis], cards: Sequence[tuple[str, Sequence[_Failure]]]) -> str:
    card_ids = {
        (failure.number, failure.finding.check): f"advice-{card}"
        for card, (_, failures) in enumerate(cards)
        for failure in failures
    }

    def render_cell(number: int, finding: Finding) -> str:
        target = card_ids.get((number, finding.check), f"model-{number}-{finding.check}")
        return f'<td><a class="{finding.verdict}" href="#{target}">{_render_verdict(finding.verdict)}</a></td>'

    heads = "".join(
        f'<th scope="col"><a href="#model-{number}">{escape(diagnosis.model)}</a>'
        f"<small>{escape(diagnosis.provider)}</small></th>"
        for number, diagnosis in enumerate(diagnoses)
    )
    rows = "\n".join(
        f'<tr><th scope="row">{escape(check.title)}</th>'
        + "".join(render_cell(number, diagnosis.findings[row]) for number, diagnosis in enumerate(diagnoses))
        + "</tr>"
        for row, check in enumerate(CHECKS)
    )
    scores = "".join(f"<td><b>{render_score(diagnosis)}</b></td>" for diagnosis in diagnoses)
    times = "".join(f"<td>{format_duration(diagnosis.first_token_s)}</td>" for diagnosis in diagnoses)
    return f"""<table>
<caption>Features and models</caption>
<thead><tr><th scope="col">Feature</th>{heads}</tr></thead>
<tbody>
<tr><th scope="row">Score</th>{scores}</tr>
{rows}
<tr><th scope="row">Time to first token</th>{times}</tr>
</tbody>
</table>"""


def _render_cards(cards: Sequence[tuple[str, Sequence[_Failure]]]) -> str:
    """Renders one card per advice, with the checks that it fixes. Returns "" if no check failed."""
    if not cards:
        return ""
    content = "\n".join(_render_card(number, advice, failures) for number, (advice, failures) in enumerate(cards))
    return f"""<section aria-labelledby="failures">
<h2 id="failures">What to do</h2>
{content}
</section>"""


def _render_card(card: int, advice: str, failures: Sequence[_Failure]) -> str:
    entries = "\n".join(_render_failure(failure) for failure in failures)
    return f"""<article id="advice-{card}">
<h3>{escape(advice)}</h3>
<ul>
{entries}
</ul></article>"""


def _render_failure(failure: _Failure) -> str:
    number, diagnosis, finding = failure
    exchange = "".join(
        f"<p>{title}</p>\n<pre>{escape(text)}</pre>\n"
        for title, text in (("Request", finding.request_text), ("Reply", finding.reply_text or "nothing"))
    )
    exchange_details = f"<details>\n<summary>Request and reply</summary>\n{exchange}</details>\n"
    return f"""<li><a href="#model-{number}-{finding.check}">{escape(diagnosis.model)}: \
{escape(_TITLES[finding.check])}</a>
<p>{escape(finding.detail)}</p>
{exchange_details if finding.request_text else ""}</li>"""


def _render_servers(servers: Sequence[PartDiagnosis]) -> str:
    """Renders the checks of servers by their kinds, each as one table. Returns "" if there are none."""
    kinds = dict.fromkeys(server.kind for server in servers)
    return "\n".join(_render_kind(kind, [each for each in servers if each.kind == kind]) for kind in kinds)


def _render_kind(kind: str, servers: Sequence[PartDiagnosis]) -> str:
    rows = "\n".join(
        f'<tr><th scope="row">{escape(server.label)}</th><td>{escape(finding.check)}</td>'
        f"<td>{_render_verdict(finding.verdict)}</td>"
        f'<td class="detail">{escape(". ".join(filter(None, (finding.detail, finding.advice))))}</td>'
        f'<td class="number" data-label="Took">{format_duration(finding.seconds or None)}</td></tr>'
        for server in servers
        for finding in server.findings
    )
    sound = sum(not server.failed for server in servers)
    name, title = ("servers", "MCP servers") if kind == MCP_SERVER else (kind.lower().replace(" ", "-"), f"{kind}s")
    return f"""<section aria-labelledby="{name}">
<h2 id="{name}">{title}: {sound} of {len(servers)} without failures</h2>
{_render_table(title, f"Checks of the {title} of the configuration", _SERVER_HEADINGS, rows)}
</section>"""


def _render_model(number: int, diagnosis: Diagnosis) -> str:
    rows = "\n".join(_render_finding(number, finding) for finding in diagnosis.findings)
    losses = ", ".join(f"<code>{escape(loss)}</code>" for loss in diagnosis.losses) or "none"
    name, upstream = escape(diagnosis.model), escape(diagnosis.upstream_model)
    return f"""<section aria-labelledby="model-{number}">
<h2 id="model-{number}">{name}: {render_score(diagnosis)}</h2>
<p class="faint">Provider <code>{escape(diagnosis.provider)}</code> of type <code>{diagnosis.provider_type}</code>,
upstream model <code>{upstream}</code>. Losses: {losses}.</p>
{_render_table(name, "Checks, in the order in which they ran", _MODEL_HEADINGS, rows)}
</section>"""


_SERVER_HEADINGS = """<th scope="col">Server</th><th scope="col">Check</th><th scope="col">Verdict</th>
<th scope="col">Remarks</th><th scope="col" class="number">Took</th>"""

_MODEL_HEADINGS = """<th scope="col">Feature</th><th scope="col">Verdict</th><th scope="col">Remarks</th>
<th scope="col" class="number">First token</th><th scope="col" class="number">Took</th>"""


def _render_table(label: str, caption: str, headings: str, rows: str) -> str:
    """Returns a table of checks that scrolls in itself on narrow screens. All arguments are HTML."""
    return f"""<div class="scroll" role="region" aria-label="{label}" tabindex="0">
<table class="checks">
<caption>{caption}</caption>
<thead><tr>{headings}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
</div>"""


def _render_finding(number: int, finding: Finding) -> str:
    first_token = format_duration(finding.first_token_s)
    return (
        f'<tr id="model-{number}-{finding.check}"><th scope="row">{escape(_TITLES[finding.check])}</th>'
        f"<td>{_render_verdict(finding.verdict)}</td>"
        f'<td class="detail">{escape(finding.detail)}</td>'
        f'<td class="number" data-label="First token">{first_token}</td>'
        f'<td class="number" data-label="Took">{format_duration(finding.seconds)}</td></tr>'
    )


def _render_verdict(verdict: str) -> str:
    return f'<span class="{verdict}"><span aria-hidden="true">{_SYMBOLS[verdict]}</span> {verdict}</span>'
