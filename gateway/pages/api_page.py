"""The page `/docs`: the endpoints of /openapi.json for people. It loads nothing, so it also works without internet."""

import re
from collections.abc import Mapping
from html import escape
from typing import Any, Final

from gateway.pages.document import HtmlDocument, build_document

_MAX_ENUM_VALUES: Final = 8
"""Longer lists of values are rendered as the type of the values."""

_QUOTED: Final = re.compile("`([^`]+)`")

_STYLE: Final = """
article h3 { font-weight: 500; }
.method { display: inline-block; min-width: 4.5rem; font-weight: 700; }
nav a { text-decoration: none; } nav a:hover code { text-decoration: underline; }
th code { font-weight: 600; white-space: nowrap; }
td.type { overflow-wrap: anywhere; min-width: 9rem; }
nav ul { columns: 22rem; list-style: none; padding: 0; margin-top: 1rem; }
nav li { break-inside: avoid; }
summary { color: var(--link); margin-top: .4rem; }
"""


def build_api_page(document: Mapping[str, Any]) -> HtmlDocument:
    """Returns the page for an OpenAPI document."""
    groups: dict[str, list[str]] = {}
    contents: dict[str, list[str]] = {}
    schemas = document.get("components", {}).get("schemas", {})
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            tag = (operation.get("tags") or ["Other"])[0]
            id = f"{method}-{path.strip('/').replace('/', '-').replace('{', '').replace('}', '')}"
            name = f'<span class="method">{method.upper()}</span> <code>{escape(path)}</code>'
            contents.setdefault(tag, []).append(f'<li><a href="#{id}">{name}</a></li>')
            groups.setdefault(tag, []).append(_render_operation(id, name, operation, schemas))
    sections = "\n".join(
        f"<section>\n<h2>{escape(tag)}</h2>\n{''.join(entries)}</section>" for tag, entries in groups.items()
    )
    index = "".join(link for links in contents.values() for link in links)
    content = f"""<main>
<h1>API of responses-gateway</h1>
<p>Requests and replies are JSON; with <code>stream: true</code> a reply is a stream of server-sent events.
Programs can read <a href="openapi.json">openapi.json</a>. <a href=".">Home page</a></p>
<nav aria-label="Endpoints"><ul>{index}</ul></nav>
{sections}
</main>"""
    return build_document("API of responses-gateway", content, style=_STYLE)


def _render_operation(id: str, name: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    paragraphs = "".join(
        f"<p>{_render_text(text)}</p>" for text in operation.get("description", "").split("\n\n") if text
    )
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    schema = schemas[_name_of(schema)] if "$ref" in schema else schema
    return f"""<article id="{id}">
<h3>{name}</h3>
{paragraphs}
{_render_fields(schema) if schema else ""}</article>
"""


def _render_fields(schema: Mapping[str, Any]) -> str:
    required = set(schema.get("required", ()))
    rows = "\n".join(
        f'<tr><th scope="row"><code>{escape(name)}</code></th><td class="type">{escape(_describe_type(field))}'
        f"{', required' if name in required else ''}"
        f"{'. ' + _render_text(field['description']) if field.get('description') else ''}</td></tr>"
        for name, field in schema.get("properties", {}).items()
    )
    return f"""<details><summary>Fields of the body</summary>
<div class="scroll" role="region" aria-label="Fields" tabindex="0"><table>
<thead><tr><th scope="col">Field</th><th scope="col">Type and meaning</th></tr></thead>
<tbody>
{rows}
</tbody></table></div></details>
"""


def _render_text(text: str) -> str:
    return _QUOTED.sub(r"<code>\1</code>", escape(text))


def _describe_type(schema: Mapping[str, Any]) -> str:
    """Returns the type of a JSON schema in words. The alternative null is left out: every optional field has it."""
    if "$ref" in schema:
        return _name_of(schema).rpartition(".")[2]
    if "const" in schema:
        return repr(schema["const"])
    if "enum" in schema and len(schema["enum"]) <= _MAX_ENUM_VALUES:
        return " or ".join(repr(value) for value in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            names = dict.fromkeys(_describe_type(each) for each in schema[key] if each.get("type") != "null")
            return " or ".join(names) if len(names) <= _MAX_ENUM_VALUES else "object, one of several types"
    if schema.get("type") == "array":
        return f"list of {_describe_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def _name_of(reference: Mapping[str, Any]) -> str:
    """Returns the name of the schema in the document's components that a reference is to."""
    return str(reference["$ref"]).removeprefix("#/components/schemas/")
