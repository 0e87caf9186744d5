"""Hand-written pages agree with what they describe."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from translation.representation.events import Event

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RECORDS = sorted((ROOT / "docs/adr").glob("[0-9]*.md"))
SOURCE = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Source"]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_the_newest_entry_of_the_changelog_is_the_version_of_the_package() -> None:
    versions = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert versions[0] == PYPROJECT["project"]["version"]


def test_each_version_of_the_changelog_has_its_date() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    versions = headings[1:] if headings[0] == "Unreleased" else headings
    assert versions
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}", heading) for heading in versions)


def test_each_page_has_a_place_in_the_site() -> None:
    navigation = (ROOT / "scripts/docs/site.yml").read_text().partition("nav:")[2]
    placed = set(re.findall(r"- (?:\w+: )?(\S+\.md)$", navigation, flags=re.MULTILINE))
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - placed == set()


def find_record_heading(record: Path) -> str:
    return record.read_text().partition("\n")[0].removeprefix(f"# {record.name[:4]} ")


def test_decisions_are_numbered_in_order_and_listed_with_their_headings() -> None:
    rows = re.findall(r"^\| \[(\d{4})\]\((\S+)\) \| (.+) \|$", (ROOT / "docs/adr/README.md").read_text(), re.MULTILINE)
    assert rows == [(record.name[:4], record.name, find_record_heading(record)) for record in RECORDS]
    assert len({record.name[:4] for record in RECORDS}) == len(RECORDS), "two decisions have the same number"


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name[:4])
def test_the_file_of_a_decision_is_named_after_its_heading(record: Path) -> None:
    words = re.findall("[a-z0-9]+", find_record_heading(record).lower().replace("'", ""))
    assert record.stem == "-".join([record.name[:4], *words])


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_a_decision_has_its_five_parts(record: Path) -> None:
    text = record.read_text()
    assert re.match(rf"# {record.name[:4]} .+\n\nStatus: (proposed|accepted|superseded by \[\d{{4}}\])", text)
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == ["Context", "Decision", "Consequences", "Alternatives"]


def list_anchors(page: Path) -> set[str]:
    """Returns the anchors of a page: of its headings, as GitHub names them, and those that it writes itself."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    written = re.findall(r'<a id="([^"]+)">', text)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings} | {*written}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    if page.parent == ROOT:  # README.md links its pages at the address of the source
        text = re.sub(rf"\]\({SOURCE}/(?:blob|raw)/main/", "](", text)
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
        if "://" not in target:
            file = page.parent / target if target else page
            assert file.exists(), target
            assert not anchor or anchor in list_anchors(file), f"{target}#{anchor}"


@pytest.mark.parametrize("document", ["CONTRIBUTING.md", "README.md"])
def test_every_make_target_a_page_names_exists(document: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"(?:`|^ {4}|^\$ )make ([a-z-]+)", (ROOT / document).read_text(), flags=re.MULTILINE))
    assert named <= targets


@pytest.mark.parametrize("document", ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/extending.md", "docs/glossary.md"])
def test_every_file_a_page_names_exists(document: str) -> None:
    named = re.findall(r"`([a-z_]+/[\w./-]*)`", (ROOT / document).read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_module_and_folder_of_code_that_a_page_names_exists(page: Path) -> None:
    code = "bench|dataplane|gateway|providers|responses_gateway_clients|scripts|tests|translation"
    named = re.findall(rf"`((?:{code})/[\w./-]*(?:\.pyx?|/))`", page.read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_architecture_has_a_row_for_every_event() -> None:
    section = (ROOT / "ARCHITECTURE.md").read_text().split("## Two values in the middle\n")[1].split("\n## ")[0]
    rows = set(re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE))
    assert rows == {event.__name__ for event in get_args(Event)}


def test_every_code_of_a_failed_reply_is_in_the_page_of_errors() -> None:
    sources = [path for package in ("translation", "providers", "gateway") for path in (ROOT / package).rglob("*.py")]
    codes = {code for path in sources for code in re.findall(r'\bFailed\(\s*"(\w+)"', path.read_text())}
    page = (ROOT / "docs/errors.md").read_text()
    assert len(codes) > 5
    assert [code for code in sorted(codes) if f"`{code}`" not in page] == []


def test_every_log_event_is_described() -> None:
    packages = ("dataplane", "gateway", "providers")
    sources = [path.read_text() for package in packages for path in (ROOT / package).rglob("*.py")]
    call = re.compile(r'\b_?log(?:ger)?\.(?:debug|info|warning|error|exception)\(\s*"(\w+)"')
    events = {event for source in sources for event in call.findall(source)}
    described = {word for page in PAGES for word in re.findall(r"`(\w+)`", page.read_text())}
    assert len(events) > 50
    assert sorted(events - described) == []


GUIDES = ("ARCHITECTURE.md", "CONTRIBUTING.md", "docs/extending.md", "docs/glossary.md")
PRODUCT = ("gateway", "providers", "dataplane", "translation", "responses_gateway_clients", "scripts")

_SYMBOL = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_QUOTED = re.compile(r"`([^`\n]+)`")
_WITH_FILE = re.compile(r"`(?P<symbol>[A-Za-z_][\w.]*)` (?:in|\()\s?`(?P<file>[\w./]+\.pyx?)`")

PATTERNS = {"NNNN_the_reason_of_a_response.py", "find_x", "take_x"}
"""Quoted words that stand for names of a form."""


def is_code_name(symbol: str) -> bool:
    """Whether a quoted word can only be a name of the code: a class, a constant, a private name, a method."""
    first = symbol.partition(".")[0]
    return bool(re.search(r"[a-z][A-Z]|^_|^[A-Z][A-Z0-9]+_|^[A-Z][a-z]", first)) or bool(
        re.search(r"^[a-z]+_[a-z_]+$", symbol)
    )


@cache
def list_names(file: Path) -> frozenset[str]:
    """Returns what a module defines or imports: classes, functions, variables, parameters, attributes, and keys."""
    if file.suffix != ".py" or file.is_relative_to(ROOT / "tests"):
        return frozenset(re.findall(r"\w+", file.read_text()))
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.alias(name=name) | ast.keyword(arg=str(name)):
                names.add(name)
            case ast.Constant(value=str(text)) if _SYMBOL.fullmatch(text):
                names.add(text)
    return frozenset(names)


@cache
def list_all_names() -> frozenset[str]:
    folders = [*((folder, ending) for folder in PRODUCT for ending in ("py", "pyx", "js")), ("tests", "py")]
    files = [file for folder, ending in folders for file in (ROOT / folder).rglob(f"*.{ending}")]
    return frozenset().union(*map(list_names, files))


def quoted_symbols(page: str) -> Iterator[str]:
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    for quoted in _QUOTED.findall(text):
        if _SYMBOL.fullmatch(quoted) and is_code_name(quoted):
            yield quoted


@pytest.mark.parametrize("page", GUIDES)
def test_every_name_of_code_that_a_page_quotes_exists(page: str) -> None:
    unknown = {
        symbol
        for symbol in quoted_symbols(page)
        if symbol not in PATTERNS and not list_all_names().issuperset(symbol.split("."))
    }
    assert unknown == set()


@pytest.mark.parametrize("page", GUIDES)
def test_a_name_is_defined_in_the_file_that_a_page_names_with_it(page: str) -> None:
    text = re.sub(r"\s+", " ", (ROOT / page).read_text())
    pairs = [(found["symbol"], found["file"]) for found in _WITH_FILE.finditer(text)]
    misplaced = [
        (symbol, file)
        for symbol, file in pairs
        if "/" in file and is_code_name(symbol) and not list_names(ROOT / file).issuperset(symbol.split("."))
    ]
    assert misplaced == []


def test_names_are_found_and_missed() -> None:
    assert {"Endpoint", "RelaySpec", "remove_params"} <= list_names(ROOT / "gateway/replies/endpoints.py")
    assert "remove_params" not in list_names(ROOT / "gateway/planning/resolver.py")
    assert is_code_name("ERROR_REPLIES")
    assert not is_code_name("server.max_items")
