"""scripts/docs/site.py: gathers the pages, rewrites their links, and finds what a site loads from other hosts."""

import re
from pathlib import Path

import pytest

from scripts.docs.site import (
    ROOT,
    SETTINGS,
    SOURCE,
    find_outside_hosts,
    gather_pages,
    indent_nested_lists,
    place_in_site,
    rewrite_links,
)

LINKS = {
    "a page beside it": ("docs/mcp.md", "tools.md#names", "tools.md#names"),
    "an anchor of the page": ("docs/mcp.md", "#tools", "#tools"),
    "a decision": ("docs/mcp.md", "adr/0001-a.md", "adr/0001-a.md"),
    "a page above a decision": ("docs/adr/0001-a.md", "../mcp.md", "../mcp.md"),
    "a page of the root, from a decision": ("docs/adr/0001-a.md", "../../ARCHITECTURE.md#a", "../ARCHITECTURE.md#a"),
    "a page of the root": ("docs/mcp.md", "../README.md", "index.md"),
    "a page of docs/ from the root": ("ARCHITECTURE.md", "docs/mcp.md#a", "mcp.md#a"),
    "a page of docs/ from the README": ("README.md", f"{SOURCE}/blob/main/docs/mcp.md#a", "mcp.md#a"),
    "a picture of the README": ("README.md", f"{SOURCE}/raw/main/docs/request.svg", "request.svg"),
    "a file that is no page": ("docs/mcp.md", "../Makefile", f"{SOURCE}/blob/main/Makefile"),
    "a folder": ("docs/mcp.md", "../tests", f"{SOURCE}/tree/main/tests"),
    "another host": ("docs/mcp.md", "https://example.com/a.md", "https://example.com/a.md"),
}  # fmt: skip


@pytest.mark.parametrize(("page", "link", "expected"), LINKS.values(), ids=LINKS)
def test_links_lead_to_the_same_place_in_the_site(page: str, link: str, expected: str) -> None:
    assert rewrite_links(f"See [it]({link}).", page) == f"See [it]({expected})."


def test_code_is_not_rewritten() -> None:
    block = "```md\n[it](../README.md)\n- a\n  - b\n```\n"
    assert rewrite_links(block, "docs/mcp.md") == block
    assert indent_nested_lists(block) == block


@pytest.mark.parametrize("text", ["- a\n  - b\n", "1. a\n   - b\n", "- a\n  1. b\n"])
def test_items_of_nested_lists_are_indented_as_mkdocs_needs_them(text: str) -> None:
    first, second = indent_nested_lists(text).splitlines()
    assert (first, second) == (text.splitlines()[0], f"    {text.splitlines()[1].strip()}")


def test_every_link_of_a_gathered_page_leads_to_a_gathered_file(tmp_path: Path) -> None:
    gather_pages(tmp_path)
    pages = tmp_path / "pages"
    broken = [
        f"{page.relative_to(pages)}: {target}"
        for page in pages.rglob("*.md")
        for target in re.findall(r"\]\((?!https?://|#)([^)#\s]+)", page.read_text())
        if not (page.parent / target).is_file()
    ]
    assert broken == []
    assert (tmp_path / "mkdocs.yml").read_text().startswith(SETTINGS.read_text())


def test_the_groups_begin_with_the_links_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    groups = re.findall(r"^  - (\w+):\n((?:      - \S+\n)+)", SETTINGS.read_text(), flags=re.MULTILINE)
    assert [name for name, _ in groups] == re.findall(r"^\*\*(\w+)\*\*:", readme, flags=re.MULTILINE)
    for name, pages in groups:
        [section] = re.findall(rf"^\*\*{name}\*\*:(.*?)(?:\n\n|\Z)", readme, flags=re.MULTILINE | re.DOTALL)
        linked = [place_in_site(path) for path in re.findall(rf"\({SOURCE}/blob/main/([^)#]+)", section)]
        assert pages.split()[1::2][: len(linked)] == linked, name


def test_what_a_site_loads_from_other_hosts_is_found(tmp_path: Path) -> None:
    loaded = [
        '<script src="https://cdn.example.com/a.js">',
        '<link rel="stylesheet" href="//fonts.example.com/b.css">',
        '<img alt="" src=http://example.com/c.png>',
    ]
    (tmp_path / "a.html").write_text("\n".join(loaded))
    (tmp_path / "a.css").write_text("@import 'https://example.com/d.css'; p {background: url(//example.com/e.png)}")
    assert len(list(find_outside_hosts(tmp_path))) == 5


def test_links_that_readers_follow_and_own_files_are_not_outside(tmp_path: Path) -> None:
    own = '<a href="https://example.com">a</a><script src="a.js"></script><link rel="canonical" href="https://example.com">'
    (tmp_path / "a.html").write_text(own)
    (tmp_path / "a.css").write_text("p {background: url(data:image/svg+xml,a)}")
    assert list(find_outside_hosts(tmp_path)) == []
