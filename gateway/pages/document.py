"""Builds an HTML document that loads nothing, with the headers that make a browser enforce this."""

import base64
import hashlib
from html import escape
from typing import Final, NamedTuple

BASE_STYLE: Final = """
:root { color-scheme: light dark; --text: #1b1f24; --ground: #fff; --soft: #f3f5f7; --line: #d5dae0; --faint: #59636e;
  --link: #0a5a9c; --pass: #116329; --fail: #b3131f; --refused: #0a5a9c; --skipped: #7a5200; }
@media (prefers-color-scheme: dark) { :root { --text: #e6eaee; --ground: #14171a; --soft: #1e2327; --line: #39414a;
  --faint: #9da7b1; --link: #6cb6ff; --pass: #56d364; --fail: #ff8078; --refused: #6cb6ff; --skipped: #e3b341; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 72rem; color: var(--text); background: var(--ground);
  font: 16px/1.5 system-ui, sans-serif; }
a { color: var(--link); }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; }
p { margin: .25rem 0; max-width: 45rem; overflow-wrap: anywhere; }
ul { margin: .25rem 0; padding-left: 1.25rem; }
.faint { color: var(--faint); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; color: var(--faint); padding-bottom: .5rem; }
th, td { text-align: left; vertical-align: top; padding: .4rem .75rem; border-bottom: 1px solid var(--line); }
.pass, .fail, .refused, .skipped { white-space: nowrap; font-weight: 600; }
.pass { color: var(--pass); } .fail { color: var(--fail); }
.refused { color: var(--refused); } .skipped { color: var(--skipped); }
article { margin: 1rem 0; padding: .75rem 1rem; border: 1px solid var(--line); }
summary { cursor: pointer; }
pre { margin: .25rem 0 .75rem; padding: .6rem .75rem; background: var(--soft); white-space: pre-wrap;
  overflow-wrap: anywhere; font: .85em/1.45 ui-monospace, monospace; }
code { font: .9em ui-monospace, monospace; overflow-wrap: anywhere; }
pre code { font: inherit; }
@media (max-width: 40rem) { body { padding: 1.25rem .75rem 3rem; } th, td { padding: .35rem .4rem; font-size: .9rem; } }
"""


class HtmlDocument(NamedTuple):
    """A page, and the headers of its reply."""

    text: str
    headers: dict[str, str]


def build_document(title: str, content: str, *, style: str = "", script: str = "") -> HtmlDocument:
    """Returns a document with `content`, which is HTML, in its body.

    Its policy allows this style, this script and, with a script, requests to the page's own origin, and nothing else.
    So text that is not escaped by mistake can still not run as a script. The icon is empty, because a browser would
    request /favicon.ico otherwise.
    """
    full_style = BASE_STYLE + style
    script_element = f"<script>{script}</script>\n" if script else ""
    text = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>{full_style}</style>
</head>
<body>
{content}
{script_element}</body>
</html>
"""
    policy = {
        "default-src": "'none'",
        "style-src": _hash_source(full_style),
        "script-src": _hash_source(script) if script else "'none'",
        "connect-src": "'self'" if script else "'none'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    headers = {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": "; ".join(f"{name} {sources}" for name, sources in policy.items()),
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        # A page can depend on the key of its request.
        "cache-control": "no-store",
        "vary": "accept, authorization, x-api-key",
    }
    return HtmlDocument(text, headers)


def _hash_source(element_text: str) -> str:
    """Returns the source expression that allows an inline element with exactly this text (CSP 3, section 2.3.1)."""
    digest = hashlib.sha256(element_text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
