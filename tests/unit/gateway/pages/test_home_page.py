"""gateway/pages: the contents of the home page, their escaping, and its examples."""

import base64
import hashlib
import json
import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from gateway.pages.api_page import build_api_page
from gateway.pages.document import HtmlDocument, build_document
from gateway.pages.home_page import HomePage, HomePageModel, build_home_page, render_curl, render_python
from gateway.pages.saved_report import SavedCheck, SavedReport, SavedResult

ODD_NAMES = ["demo", "it's", 'a"b', "$(id)`id`", "<script>alert(1)</script>", "a\\b", "日本語", "a&amp;b", "a\nb"]
PAGE = HomePage(
    version="1.2.3",
    status="ready",
    base_url="http://host:1",
    needs_key=False,
    models=[HomePageModel(name="demo", provider="p")],
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


class Reader(HTMLParser):
    """The texts of a page by the tag around them, and its attributes."""

    def __init__(self, document: HtmlDocument) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.codes: dict[str, str] = {}
        self.text = ""
        self._open: list[tuple[str, str]] = []
        self.feed(document.text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in ("meta", "link", "input"):
            self._open.append((tag, dict(attrs).get("id") or ""))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1][0] in ("style", "script"):
            return
        self.text += data
        for tag, id in self._open:
            if tag == "code" and id:
                self.codes[id] = self.codes.get(id, "") + data


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_is_text_on_the_page_and_in_its_examples(name: str) -> None:
    page = Reader(build_home_page(replace(PAGE, models=[HomePageModel(name=name, provider="<p>")])))
    assert name in page.text
    assert page.tags.count("script") == 1
    words = shlex.split(page.codes["snippet-0-curl"])
    assert words[:2] == ["curl", "http://host:1/v1/responses"]
    assert json.loads(words[words.index("-d") + 1])["model"] == name
    assert page.codes["snippet-0-curl"] == render_curl("http://host:1", name, needs_key=False)
    assert page.codes["snippet-0-python"] == render_python("http://host:1", name, needs_key=False)


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


@pytest.mark.parametrize("document", [build_home_page(PAGE), build_api_page({"paths": {}}), build_document("t", "<p>")])
def test_the_policy_allows_this_style_and_this_script_and_nothing_else(document: HtmlDocument) -> None:
    policy = dict(part.split(" ", 1) for part in document.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    for element in ("style", "script"):
        texts = re.findall(rf"<{element}>(.*?)</{element}>", document.text, flags=re.DOTALL)
        digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
        assert policy[f"{element}-src"] == " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    assert "unsafe" not in document.headers["content-security-policy"]
    assert not re.search(r' (?:on\w+|style|src)="', document.text)
    assert not re.search(r"(?:href|url\()=?\"?https?:", document.text)
    assert document.headers["cache-control"] == "no-store"


def test_a_reader_without_a_key_sees_a_form_and_no_model() -> None:
    page = Reader(build_home_page(replace(PAGE, models=None, needs_key=True, config_digest="")))
    assert "form" in page.tags
    assert ("input", "type", "password") in page.attributes
    assert "demo" not in page.text
    assert "doctor" not in page.text


@pytest.mark.parametrize(
    ("status", "colour"),
    [("ready", "pass"), ("degraded", "skipped"), ("starting", "skipped"), ("draining", "fail"), ("new", "fail")],
)
def test_the_status_has_a_colour_and_its_notes(status: str, colour: str) -> None:
    text = build_home_page(replace(PAGE, status=status, notes=[("Store", "<gone>")])).text
    assert f'<span class="{colour}">{status}</span>' in text
    assert "<dt>Store</dt><dd>&lt;gone&gt;</dd>" in text


def test_a_report_has_a_score_and_each_advice_once() -> None:
    page = Reader(build_home_page(replace(PAGE, report=SavedReport(results=(RESULT,)))))
    assert "demo: 1 of 3" in page.text
    assert "1 passed, 2 failed, 1 skipped" in page.text
    assert page.text.count("Start <it> again.") == 1
    assert "Tools, Chat tools" in page.text
    assert "<i>no</i> flags" in page.text
    assert "2026-11-23T08:00:00Z" in page.text
    assert "has changed since" not in page.text


def test_a_report_of_another_configuration_is_marked() -> None:
    report = SavedReport(results=(RESULT.model_copy(update={"config_digest": "old"}),))
    assert "The configuration has changed since." in build_home_page(replace(PAGE, report=report)).text


def test_a_report_that_is_missing_or_unreadable_is_mentioned() -> None:
    assert "No model was examined yet" in build_home_page(PAGE).text
    assert "report.json is broken" in build_home_page(replace(PAGE, report_problem="report.json is broken")).text


def test_many_models_are_cut_and_patterns_are_listed() -> None:
    models = [HomePageModel(name=f"m{number}", provider="p") for number in range(250)]
    page = Reader(build_home_page(replace(PAGE, models=models, patterns=[HomePageModel(name="gpt-*", provider="o")])))
    assert page.tags.count("details") == 200
    assert "50 more are listed by GET /v1/models" in page.text
    assert "gpt-* (o)" in page.text
    assert "No model is listed" in build_home_page(replace(PAGE, models=[])).text


def test_the_api_page_has_every_operation_with_its_fields() -> None:
    schema = {
        "required": ["model"],
        "properties": {
            "model": {"type": "string", "description": "its `name`"},
            "stop": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
            "effort": {"enum": ["low", "high"]},
            "kind": {"const": "text"},
            "format": {"$ref": "#/components/schemas/MakeThing.Format"},
            "tool": {"oneOf": [{"$ref": f"#/$defs/Tool{number}"} for number in range(12)]},
            "extra": {},
        },
    }
    operation = {
        "tags": ["Things"],
        "description": "Make <one>.\n\nWith `a` thing.",
        "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/MakeThing"}}}},
    }
    page = build_api_page(
        {
            "paths": {"/v1/{id}/x": {"post": operation, "get": {}}},
            "components": {"schemas": {"MakeThing": schema, "MakeThing.Format": {"type": "object"}}},
        }
    )
    Reader(page)
    for expected in (
        '<article id="post-v1-id-x">',
        '<a href="#post-v1-id-x">',
        "<h2>Things</h2>",
        "<h2>Other</h2>",
        "<p>Make &lt;one&gt;.</p><p>With <code>a</code> thing.</p>",
        "string, required. its <code>name</code>",
        "string or list of string<",
        "&#x27;low&#x27; or &#x27;high&#x27;",
        "&#x27;text&#x27;",
        ">Format<",
        "object, one of several types",
        ">any<",
    ):
        assert expected in page.text
