"""Renders diagnoses as one self-contained HTML page, with a light and a dark theme."""

from collections.abc import Sequence
from html import escape
from typing import Final

from gateway.doctor.checks.responses import CHECKS
from gateway.doctor.checks.verdicts import Diagnosis, Finding
from gateway.doctor.text_report import format_duration, render_summary

_SYMBOLS: Final = {"pass": "✓", "fail": "✗", "refused": "⊘", "skipped": "…"}
"""Symbols beside the verdicts, for people who cannot distinguish the colours."""

_TITLES: Final = {check.name: check.title for check in CHECKS}

_STYLE: Final = """
:root { color-scheme: light dark; --text: #1b1f24; --ground: #fff; --soft: #f3f5f7; --line: #d5dae0; --faint: #59636e;
  --pass: #116329; --fail: #b3131f; --refused: #0a5a9c; --skipped: #7a5200; }
@media (prefers-color-scheme: dark) { :root { --text: #e6eaee; --ground: #14171a; --soft: #1e2327; --line: #39414a;
  --faint: #9da7b1; --pass: #56d364; --fail: #ff8078; --refused: #6cb6ff; --skipped: #e3b341; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 72rem; color: var(--text); background: var(--ground);
  font: 16px/1.5 system-ui, sans-serif; }
a { color: inherit; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; overflow-wrap: anywhere; }
p { margin: .25rem 0; max-width: 45rem; }
.faint { color: var(--faint); }
.scroll { overflow-x: auto; margin-top: 1.5rem; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; color: var(--faint); padding-bottom: .5rem; }
th, td { text-align: left; vertical-align: top; padding: .4rem .75rem; border-bottom: 1px solid var(--line); }
thead th { background: var(--soft); min-width: 6.5rem; overflow-wrap: anywhere; }
thead th:first-child { position: sticky; left: 0; z-index: 1; }
thead th small { display: block; font-weight: normal; color: var(--faint); }
tbody th { position: sticky; left: 0; background: var(--ground); font-weight: 500; white-space: nowrap; }
.pass, .fail, .refused, .skipped { white-space: nowrap; font-weight: 600; }
.pass { color: var(--pass); } .fail { color: var(--fail); }
.refused { color: var(--refused); } .skipped { color: var(--skipped); }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.detail { overflow-wrap: anywhere; min-width: 12rem; }
h3 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; }
article { margin: 1rem 0; padding: .75rem 1rem; border: 1px solid var(--line); border-left: 4px solid var(--fail); }
article p { overflow-wrap: anywhere; }
summary { cursor: pointer; margin-top: .5rem; color: var(--faint); }
pre { margin: .25rem 0 .75rem; padding: .6rem .75rem; background: var(--soft); white-space: pre-wrap;
  overflow-wrap: anywhere; font: .85em/1.45 ui-monospace, monospace; }
code { font: .9em ui-monospace, monospace; overflow-wrap: anywhere; }
@media (max-width: 40rem) { body { padding: 1.25rem .75rem 3rem; } th, td { padding: .35rem .4rem; font-size: .9rem; }
  tbody th { white-space: normal; min-width: 7rem; max-width: 8.5rem; } thead th { min-width: 5rem; }
  td.detail { min-width: 9.5rem; } }
"""

_LEGEND: Final = (
    ("pass", "it works"),
    ("fail", "it is declared but does not work"),
    ("refused", "it is not available, and the gateway reports it by name"),
    ("skipped", "the check could not decide, for the reason given"),
)


def render_html(diagnoses: Sequence[Diagnosis]) -> str:
    """Return an HTML document. Models with more failed checks come first."""
    diagnoses = sorted(
        diagnoses, key=lambda diagnosis: -sum(finding.verdict == "fail" for finding in diagnosis.findings)
    )
    legend = " ".join(f"{_render_verdict(verdict)} <span class=faint>{meaning}.</span>" for verdict, meaning in _LEGEND)
    sections = "\n".join(_render_model(number, diagnosis) for number, diagnosis in enumerate(diagnoses))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>responses-gateway doctor: {escape(render_summary(diagnoses))}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>What each model can do</h1>
<p>{escape(render_summary(diagnoses))}.</p>
<p>{legend}</p>
<div class="scroll" role="region" aria-label="All models" tabindex="0">
{_render_overview(diagnoses)}
</div>
{_render_failures(diagnoses)}
{sections}
</main>
</body>
</html>
"""


def _render_overview(diagnoses: Sequence[Diagnosis]) -> str:
    heads = "".join(
        f'<th scope="col"><a href="#model-{number}">{escape(diagnosis.model)}</a>'
        f"<small>{escape(diagnosis.provider)}</small></th>"
        for number, diagnosis in enumerate(diagnoses)
    )
    rows = "\n".join(
        f'<tr><th scope="row">{escape(check.title)}</th>'
        + "".join(f"<td>{_render_verdict(diagnosis.findings[number].verdict)}</td>" for diagnosis in diagnoses)
        + "</tr>"
        for number, check in enumerate(CHECKS)
    )
    times = "".join(f"<td>{format_duration(diagnosis.first_token_s)}</td>" for diagnosis in diagnoses)
    return f"""<table>
<caption>Features and models</caption>
<thead><tr><th scope="col">Feature</th>{heads}</tr></thead>
<tbody>
{rows}
<tr><th scope="row">Time to first token</th>{times}</tr>
</tbody>
</table>"""


def _render_failures(diagnoses: Sequence[Diagnosis]) -> str:
    """Render every failed check with its detail, its advice and its exchange. Returns "" if no check failed."""
    articles = [
        _render_failure(number, diagnosis, finding)
        for number, diagnosis in enumerate(diagnoses)
        for finding in diagnosis.findings
        if finding.verdict == "fail"
    ]
    if not articles:
        return ""
    content = "\n".join(articles)
    return f"""<section aria-labelledby="failures">
<h2 id="failures">Failures</h2>
{content}
</section>"""


def _render_failure(number: int, diagnosis: Diagnosis, finding: Finding) -> str:
    exchange = "".join(
        f"<p>{title}</p>\n<pre>{escape(text)}</pre>\n"
        for title, text in (("Request", finding.asked), ("Reply", finding.came or "nothing"))
    )
    exchange_details = f"<details>\n<summary>Request and reply</summary>\n{exchange}</details>\n"
    return f"""<article>
<h3><a href="#model-{number}">{escape(diagnosis.model)}</a>: {escape(_TITLES[finding.check])}</h3>
<p>{escape(finding.detail)}</p>
<p>{escape(finding.advice)}</p>
{exchange_details if finding.asked else ""}</article>"""


def _render_model(number: int, diagnosis: Diagnosis) -> str:
    rows = "\n".join(_render_finding(_TITLES[finding.check], finding) for finding in diagnosis.findings)
    losses = ", ".join(f"<code>{escape(loss)}</code>" for loss in diagnosis.losses) or "none"
    name, upstream = escape(diagnosis.model), escape(diagnosis.upstream_model)
    return f"""<section aria-labelledby="model-{number}">
<h2 id="model-{number}">{name}</h2>
<p class="faint">Provider <code>{escape(diagnosis.provider)}</code> of type <code>{diagnosis.provider_type}</code>,
upstream model <code>{upstream}</code>. Losses: {losses}.</p>
<div class="scroll" role="region" aria-label="{name}" tabindex="0">
<table>
<caption>Checks, in the order in which they ran</caption>
<thead><tr><th scope="col">Feature</th><th scope="col">Verdict</th><th scope="col">Remarks</th>
<th scope="col" class="number">First token</th><th scope="col" class="number">Took</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>
</div>
</section>"""


def _render_finding(title: str, finding: Finding) -> str:
    return (
        f'<tr><th scope="row">{escape(title)}</th><td>{_render_verdict(finding.verdict)}</td>'
        f'<td class="detail">{escape(finding.detail)}</td>'
        f'<td class="number">{format_duration(finding.first_token_s)}</td>'
        f'<td class="number">{format_duration(finding.seconds)}</td></tr>'
    )


def _render_verdict(verdict: str) -> str:
    return f'<span class="{verdict}"><span aria-hidden="true">{_SYMBOLS[verdict]}</span> {verdict}</span>'
