"""The text of HTML pages, and pages that are made to be slow to read."""

import time

import pytest

from gateway.retrieval import html_text
from gateway.retrieval.html_text import PageText, extract_html_text

ALL = 1_000_000


@pytest.mark.parametrize(
    ("source", "title", "text"),
    [
        ("<title>A &amp; B</title><p>One<p>Two", "A & B", "One\nTwo"),
        ("<html><head><style>x</style><body>Text</body></html>", "", "Text"),
        ("<head><title>T</title><meta x></head>Text<br>more", "T", "Text\nmore"),
        ("a<!-- <p>hidden -->b<!doctype html>c<?xml x?>d", "", "abcd"),
        ("x<script>if (a<b) '</p>'</script>y<svg><text>z</text></svg>w<svg/>v", "", "xywv"),
        ("<a title='a>b' class=\"[&>p]:x\" x=don't>link</a> it's", "", "link it's"),
        ("1 < 2 &lt; 3 <", "", "1 < 2 < 3 <"),
        ("<p>  many \t blanks\xa0here </p>\n\n\n<div>next</div>", "", "many blanks here\nnext"),
        ("<p>one\n sentence</p><pre>two\nlines</pre>end\nof it", "", "one sentence\ntwo\nlines\nend of it"),
        ("<svg><b>x</b>", "", ""),
        ("<svg><head><svg>x</head>y</svg>z", "", "z"),
        ("a &#000065;&#0000000000065; b", "", "a AA b"),
        (
            "<title>&#" + "1" * 5000 + ";</title>a &#" + "1" * 5000 + "; &#" + "0" * 5000 + ";b",
            "\ufffd",
            "a \ufffd \ufffdb",
        ),
        ("a <b", "", "a"),
        ("a <b 'x", "", "a"),
        ("a<!-- no end", "", "a"),
        ("a</>b</x y>c", "", "abc"),
        ("<TITLE>One</TITLE><title>Two</title>x", "One", "x"),
    ],
)
def test_the_text_of_a_page(source: str, title: str, text: str) -> None:
    assert extract_html_text(source, ALL) == PageText(title, text)


def test_a_long_text_is_cut_and_the_cut_is_reported() -> None:
    assert extract_html_text("<p>" + "x" * 100, 10) == PageText("", "x" * 10, is_whole=False)
    assert extract_html_text("<p>" + "x" * 10, 10).is_whole
    assert not extract_html_text("<p>x" * 5000, 10).is_whole


@pytest.mark.parametrize(
    "piece",
    [
        "<",
        "<a",
        "<a ",
        '<a x="',
        "<a x='",
        "<!--",
        "<!",
        "</",
        "<script",
        "<script>",
        "<svg>",
        "<p>",
        "&",
        "&amp",
        "<title>",
        '<a x=">',
        "]>",
    ],
)
def test_no_page_takes_long(piece: str) -> None:
    source = (piece * (5_000_000 // len(piece)))[:5_000_000]
    began = time.thread_time()
    extract_html_text(source, ALL)
    assert time.thread_time() - began < 8, "in a thread, five million characters"


@pytest.mark.parametrize("name", sorted(html_text._HIDDEN_ON_PAGES))
@pytest.mark.parametrize("end_tag", ["</a>", "</p>", "</svg", "</object>", "</template>"])
def test_end_tags_cost_the_same_however_many_elements_are_hidden(name: str, end_tag: str) -> None:
    began = time.thread_time()
    assert extract_html_text(f"<{name}>" * 50_000 + end_tag * 15_000, ALL).text == ""
    assert time.thread_time() - began < html_text._MAX_S


def test_a_page_that_takes_too_long_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_text, "_MAX_S", -1.0)
    assert not extract_html_text("<p>x" * 2000, ALL).is_whole
