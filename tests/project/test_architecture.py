"""ARCHITECTURE.md lists every package of the production code, and the files that it names exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("gateway", "providers", "dataplane", "translation", "responses_gateway_clients")
DOCUMENT = (ROOT / "ARCHITECTURE.md").read_text()

_ROW = re.compile(r"\| `(?P<package>[\w/]+)/` \| (?P<sentence>.+) \|")
_FILE_ENDINGS = "ini|json|md|mako|py|pyx|sh|toml|txt|xz|yaml|yml"
_FILE = re.compile(rf"`((?:[\w.-]+/)*[\w.-]+\.(?:{_FILE_ENDINGS}))`")


def map_rows() -> list[str]:
    """The rows of the table under "## The map", without its head."""
    _, heading, rest = DOCUMENT.partition("\n## The map\n")
    assert heading, 'ARCHITECTURE.md needs a heading "## The map", with a table of packages under it'
    section = re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    assert rows, 'ARCHITECTURE.md needs a table under "## The map"'
    return rows


def existing_packages() -> set[str]:
    files = (file for folder in FOLDERS for file in (ROOT / folder).rglob("__init__.py"))
    return {file.parent.relative_to(ROOT).as_posix() for file in files}


def test_a_row_of_the_map_is_a_package_and_a_sentence() -> None:
    malformed = [row for row in map_rows() if not _ROW.fullmatch(row)]
    assert malformed == [], "a row of the map is `| `gateway/http/` | sentence |`"


def test_the_map_lists_every_package_once() -> None:
    listed = [row["package"] for row in map(_ROW.fullmatch, map_rows()) if row]
    existing = existing_packages()
    assert sorted(existing - set(listed)) == [], "packages that the map of ARCHITECTURE.md does not list"
    assert sorted(set(listed) - existing) == [], "packages that the map of ARCHITECTURE.md lists and that do not exist"
    assert len(listed) == len(set(listed)), "the map of ARCHITECTURE.md lists a package twice"


def test_the_files_that_the_document_names_exist() -> None:
    modules = {file.name for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")}
    missing = sorted(
        path
        for path in set(_FILE.findall(DOCUMENT))
        if not (ROOT / path).exists() and ("/" in path or path not in modules)
    )
    assert missing == [], "ARCHITECTURE.md names files that do not exist; write paths from the repository's root"


def test_the_folders_that_the_document_names_exist() -> None:
    folders = re.findall(r"`((?:[\w.-]+/)+)`", DOCUMENT)
    missing = sorted({path for path in folders if not (ROOT / path).is_dir()})
    assert missing == [], "ARCHITECTURE.md names folders that do not exist; write paths from the repository's root"
