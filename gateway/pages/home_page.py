"""The server's home page: its status, its models with examples, and the last report of the doctor."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from gateway.pages.document import HtmlDocument, build_document
from gateway.pages.home_script import HOME_SCRIPT
from gateway.pages.saved_report import SavedReport, SavedResult, Verdict

_MAX_MODELS: Final = 200
"""Models with examples on the page. A hosted service may list several hundred."""
KEY_VARIABLE: Final = "GATEWAY_KEY"
"""The environment variable that examples read the client's key from."""


_STYLE: Final = """
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .15rem 1rem; margin: .75rem 0; }
dt { color: var(--faint); overflow-wrap: anywhere; } dd { margin: 0; overflow-wrap: anywhere; }
details.model { border: 1px solid var(--line); border-bottom-width: 0; padding: .5rem .75rem; }
details.model:last-of-type { border-bottom-width: 1px; }
details.model > summary { overflow-wrap: anywhere; }
details.model > summary b { margin-right: .5rem; }
.snippet { margin-top: .75rem; }
.snippet header { display: flex; justify-content: space-between; align-items: center; gap: 1rem; }
button { font: inherit; font-size: .85rem; color: inherit; background: var(--soft); border: 1px solid var(--line);
  border-radius: 4px; padding: .15rem .6rem; cursor: pointer; min-height: 1.9rem; }
input { font: inherit; color: inherit; background: var(--ground); border: 1px solid var(--faint); border-radius: 4px;
  padding: .25rem .5rem; width: 20rem; max-width: 100%; }
form { display: flex; flex-wrap: wrap; gap: .5rem; align-items: center; margin: .5rem 0; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
article { border-left: 4px solid var(--pass); }
article.failing { border-left-color: var(--fail); }
.model + p { margin-top: .75rem; }
article dl { grid-template-columns: minmax(0, 1fr); gap: 0; } article dd { margin-bottom: .5rem; }
"""

_STATUS_CLASSES: Final[dict[str, Verdict]] = {"ready": "pass", "degraded": "skipped", "starting": "skipped"}
"""Status -> the class of its colour. Every other status means that the server does not serve: class `fail`."""

_LINKS: Final = (
    ("docs", "API", "every endpoint and its fields"),
    ("openapi.json", "openapi.json", "the same for programs"),
    ("v1/models", "/v1/models", "the models as JSON"),
    ("healthz", "/healthz", "whether the process is alive"),
    ("readyz", "/readyz", "whether the server accepts requests"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HomePageModel:
    """One model that the reader may request."""

    name: str
    provider: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HomePage:
    """The content of the page."""

    version: str
    status: str
    """The status of `/readyz`."""
    notes: Sequence[tuple[str, str]] = ()
    """(name, text) of everything that is worth knowing beside the status, such as the state of each engine."""
    base_url: str
    """The address at which the reader reached the server, without a path. Its script corrects it behind a proxy."""
    needs_key: bool
    """Whether the server has keys."""
    models: Sequence[HomePageModel] | None
    """None if the reader has sent no key yet: then nothing is listed."""
    patterns: Sequence[HomePageModel] = ()
    """Patterns of further names, which upstreams may serve without listing them."""
    report: SavedReport | None = None
    """The last results of the doctor for `models`."""
    report_problem: str = ""
    """The reason why there is no `report`, if the file exists."""
    config_digest: str = ""


def build_home_page(page: HomePage) -> HtmlDocument:
    """Returns the page as a document."""
    sections = [_render_status(page)]
    if page.models is None:
        sections.append(_KEY_FORM)
    else:
        sections += [_render_models(page, page.models), _render_reports(page)]
    content = "\n".join(["<main>", *sections, _render_links(), "</main>"])
    return build_document("responses-gateway", content, style=_STYLE, script=HOME_SCRIPT)


def _render_status(page: HomePage) -> str:
    status_class = _STATUS_CLASSES.get(page.status, "fail")
    rows = [
        ("Status", f'<span class="{status_class}">{escape(page.status)}</span>'),
        *((escape(name), escape(text)) for name, text in page.notes),
        ("Base URL", f"<code><span data-origin>{escape(page.base_url)}</span>/v1</code>"),
        ("Version", escape(page.version)),
    ]
    if page.config_digest:
        rows.append(("Configuration", f"<code>{escape(page.config_digest)}</code>"))
    facts = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in rows)
    return f"""<h1>responses-gateway</h1>
<p class="faint">OpenAI's Responses and Chat Completions APIs in front of any model.</p>
<dl>{facts}</dl>"""


_KEY_FORM: Final = """<section aria-labelledby="models">
<h2 id="models">Models</h2>
<p>This server has keys. Enter yours to see its models. The page forgets it when it is closed.</p>
<form><label for="key">API key</label> <input id="key" type="password" autocomplete="off" spellcheck="false" required>
<button>List models</button></form>
<p id="key-status" role="status"></p>
<noscript><p>The form needs JavaScript. Without it: <code>GET /v1/models</code> with the key.</p></noscript>
</section>"""


def _render_models(page: HomePage, models: Sequence[HomePageModel]) -> str:
    entries = [_render_model(page, number, model) for number, model in enumerate(models[:_MAX_MODELS])]
    if len(models) > _MAX_MODELS:
        entries.append(f"<p>{len(models) - _MAX_MODELS} more are listed by <code>GET /v1/models</code>.</p>")
    if page.patterns:
        patterns = ", ".join(f"<code>{escape(each.name)}</code> ({escape(each.provider)})" for each in page.patterns)
        entries.append(f'<p class="faint">Names that match a pattern are sent to its upstream: {patterns}.</p>')
    elif not models:
        entries.append("<p>No model is listed: the configuration has none, or your key may use none.</p>")
    content = "\n".join(entries)
    return f"""<section aria-labelledby="models">
<h2 id="models">Models</h2>
{content}
</section>"""


def _render_model(page: HomePage, number: int, model: HomePageModel) -> str:
    snippets = "\n".join(
        _render_snippet(f"snippet-{number}-{kind}", title, page.base_url, text)
        for kind, title, text in (
            ("curl", "curl", render_curl(page.base_url, model.name, needs_key=page.needs_key)),
            ("python", "Python, package openai", render_python(page.base_url, model.name, needs_key=page.needs_key)),
        )
    )
    return f"""<details class="model"{" open" if number == 0 else ""}>
<summary><b>{escape(model.name)}</b> <span class="faint">{escape(model.provider)}</span></summary>
{snippets}
</details>"""


def _render_snippet(id: str, title: str, base_url: str, text: str) -> str:
    address = escape(base_url)
    # Only the first occurrence is the address: a model's name may contain the same text.
    code = escape(text, quote=False).replace(address, f"<span data-origin>{address}</span>", 1)
    return f"""<div class="snippet">
<header><span class="faint">{title}</span><button type="button" data-copy="{id}">Copy</button></header>
<pre><code id="{id}">{code}</code></pre>
</div>"""


def _render_reports(page: HomePage) -> str:
    results = page.report.results if page.report else ()
    if page.report_problem:
        content = f'<p class="skipped">{escape(page.report_problem)}</p>'
    elif not results:
        content = "<p>No model was examined yet: <code>responses-gateway doctor</code> tests what each can do.</p>"
    else:
        content = "\n".join(_render_result(page, result) for result in results)
    return f"""<section aria-labelledby="doctor">
<h2 id="doctor">Last report of the doctor</h2>
{content}
</section>"""


def _render_result(page: HomePage, result: SavedResult) -> str:
    tried = result.count("pass") + result.count("fail")
    counts = ", ".join(
        f'<span class="{verdict}">{count} {meaning}</span>'
        for verdict, meaning in _COUNTED
        if (count := result.count(verdict))
    )
    changed = ""
    if page.config_digest and result.config_digest != page.config_digest:
        changed = '<p class="skipped">The configuration has changed since.</p>'
    titles_by_advice: dict[str, list[str]] = {}
    for check in result.checks:
        if check.verdict == "fail":
            titles_by_advice.setdefault(check.advice, []).append(check.title)
    failures = "".join(
        f"<dt>{escape(', '.join(titles))}</dt><dd>{escape(advice)}</dd>" for advice, titles in titles_by_advice.items()
    )
    rows = "\n".join(
        f'<tr><th scope="row">{escape(check.title)}</th><td><span class="{check.verdict}">{check.verdict}</span></td>'
        f"<td>{escape(check.detail)}</td></tr>"
        for check in result.checks
    )
    return f"""<article{' class="failing"' if failures else ""}>
<h3>{escape(result.model)}: {result.count("pass")} of {tried}</h3>
<p>{counts}</p>
<p class="faint">{escape(result.date)}, version {escape(result.product_version)},
configuration <code>{escape(result.config_digest)}</code></p>
{changed}{f"<dl>{failures}</dl>" if failures else ""}<details><summary>All checks</summary>
<div class="scroll" role="region" aria-label="Checks of {escape(result.model)}" tabindex="0"><table>
<thead><tr><th scope="col">Feature</th><th scope="col">Verdict</th><th scope="col">Remarks</th></tr></thead>
<tbody>
{rows}
</tbody></table></div></details>
</article>"""


_COUNTED: Final[tuple[tuple[Verdict, str], ...]] = (
    ("pass", "passed"),
    ("fail", "failed"),
    ("refused", "refused"),
    ("skipped", "skipped"),
)


def _render_links() -> str:
    rows = "".join(f'<li><a href="{path}">{name}</a>: {meaning}</li>' for path, name, meaning in _LINKS)
    return f"""<section aria-labelledby="links">
<h2 id="links">Links</h2>
<ul>{rows}</ul>
</section>"""


def render_curl(base_url: str, model: str, *, needs_key: bool) -> str:
    """Returns a shell command that requests a response. `base_url` is the server's address, without `/v1`."""
    key = f' \\\n  -H "Authorization: Bearer ${KEY_VARIABLE}"' if needs_key else ""
    body = json.dumps({"model": model, "input": "Say hello."}, ensure_ascii=False)
    return f"curl {base_url}/v1/responses{key} \\\n  -H 'Content-Type: application/json' \\\n  -d {shlex.quote(body)}"


def render_python(base_url: str, model: str, *, needs_key: bool) -> str:
    """Returns a Python program for the package `openai` that prints a response."""
    imports = "import os\n\nfrom openai import OpenAI" if needs_key else "from openai import OpenAI"
    key = f'os.environ["{KEY_VARIABLE}"]' if needs_key else '"none"'
    return (
        f'{imports}\n\nclient = OpenAI(base_url="{base_url}/v1", api_key={key})\n'
        f"response = client.responses.create(model={_quote_python(model)}, input={_quote_python('Say hello.')})\n"
        "print(response.output_text)"
    )


def _quote_python(text: str) -> str:
    # A JSON string is a Python string, too, except for escaped surrogate pairs, which this does not write.
    return json.dumps(text, ensure_ascii=False)
