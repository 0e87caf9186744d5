"""gateway/pages/static_files.py: the files of the pages obey their own policy."""

import re

import pytest

from gateway.pages.static_files import PAGE_HEADERS, StaticFile, read_static_files

FILES = read_static_files()
DOCUMENTS = [name for name in FILES if name.endswith(".html")]
SCRIPTS = [name for name in FILES if name.endswith(".js")]


def text_of(file: StaticFile) -> str:
    return file.content.decode()


def test_the_policy_allows_files_of_the_server_and_nothing_else() -> None:
    policy = dict(part.split(" ", 1) for part in PAGE_HEADERS["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert {policy[kind] for kind in ("style-src", "script-src", "connect-src", "img-src")} == {"'self'"}
    assert policy["require-trusted-types-for"] == "'script'"
    assert not re.search("unsafe|sha256|nonce|\\*|http", PAGE_HEADERS["content-security-policy"])


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_has_nothing_inline_and_nothing_from_elsewhere(name: str) -> None:
    text = text_of(FILES[name])
    assert "<style" not in text
    assert re.findall(r"<script[^>]*>(.+?)</script>", text, re.DOTALL) == []
    assert not re.search(r' (?:on\w+|style)="', text)
    assert not re.search(r"https?:", text)


@pytest.mark.parametrize("name", FILES)
def test_a_file_refers_only_to_files_that_are_served_beside_it(name: str) -> None:
    text = text_of(FILES[name])
    named = re.findall(r'(?:href|src)="pages/([^"]+)"|from "\./([^"]+)"', text)
    assert {first or second for first, second in named} <= FILES.keys()
    assert not re.search(r"@import|url\(", text)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_makes_no_html_of_texts_and_names_elements_that_exist(name: str) -> None:
    script = text_of(FILES[name])
    assert not re.search("innerHTML|outerHTML|insertAdjacentHTML|document.write|DOMParser|eval|Function\\(", script)
    document = FILES.get(name.replace(".js", ".html"))
    if document is not None:
        named = re.findall(r'(?:find|fillTemplate)\("([^"]+)"', script)
        ids = re.findall(r' id="([^"]+)"', text_of(document))
        assert named
        assert set(named) <= set(ids)
        assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_asked_for_again_by_its_content(name: str) -> None:
    headers = FILES[name].headers
    assert headers["cache-control"] == "no-cache"
    assert re.fullmatch('"[0-9a-f]{32}"', headers["etag"])
    assert headers["x-content-type-options"] == "nosniff"
    assert headers.items() >= PAGE_HEADERS.items()


def test_each_client_says_once_where_its_lines_are_written() -> None:
    """The title of its snippet says so. The summary above it has only the client's name."""
    [template] = re.findall(r'<template id="client-template">(.*?)</template>', text_of(FILES["home.html"]), re.DOTALL)
    assert re.findall('data-text="(.*?)"', template) == ["title"]
    assert text_of(FILES["home.js"]).count("client.place") == 1
