"""Builds an HTML document that loads nothing, with the headers that make a browser enforce this."""

import base64
import hashlib
from html import escape
from typing import NamedTuple

from gateway.pages.style import BASE_STYLE


class HtmlDocument(NamedTuple):
    """A page, and the headers of its reply."""

    text: str
    headers: dict[str, str]


def build_document(title: str, content: str, *, style: str = "", script: str = "") -> HtmlDocument:
    """Return a document with `content`, which is HTML, in its body.

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
    """Return the source expression that allows an inline element with exactly this text (CSP 3, section 2.3.1)."""
    digest = hashlib.sha256(element_text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
