"""Builds the documentation as a site: `python -m scripts.docs.site PYTHON FOLDER`, where PYTHON has MkDocs.

The pages of the repository are gathered in one folder, with their links rewritten: a page links pages of the site, and
other files of the repository at the address of the source. MkDocs builds them in strict mode, which refuses links and
anchors that lead nowhere. Then no page may load anything from another host.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Final

import yaml

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Source"]
SETTINGS: Final = Path(__file__).with_name("site.yml")

_ROOT_PAGES: Final = {"README.md": "index.md"} | {
    name: name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
}
_FILES: Final = {"gateway/pages/static/icon.svg": "icon.svg", "scripts/docs/site.css": "site.css"}
"""Path in the repository -> path in the site, beside those of `docs/`."""

_LINK: Final = re.compile(r"(?<=\]\()(?!https?://|mailto:|#)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]+)?(?=\))")
_NESTED_ITEM: Final = re.compile(r"^ {2,3}(?=(?:[-*]|\d+\.) )", flags=re.MULTILINE)
_FENCE: Final = re.compile(r"^( *)```.*?^\1```$", flags=re.MULTILINE | re.DOTALL)
_LOADED: Final = re.compile(
    r"<(?:script|img|iframe|source|link(?![^>]*canonical))\b[^>]*?\b(?:src|href)=\"?(?:https?:)?//[^\s\">]+"
)
_LOADED_STYLE: Final = re.compile(r"(?:url\(|@import )[\"']?(?:https?:)?//[^\s\"')]+")


def place_in_site(path: str) -> str | None:
    """Returns the path in the site of a file of the repository; None if the site does not have it."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return _ROOT_PAGES.get(path) or _FILES.get(path)


def rewrite_links(text: str, page: str) -> str:
    """Returns the text of a page of the repository with the links that it has in the site. Code is left as it is."""
    for kind in ("blob", "raw"):
        text = text.replace(f"]({SOURCE}/{kind}/main/", f"]({relpath('.', str(PurePosixPath(page).parent))}/")
    here = place_in_site(page)
    assert here is not None, page

    def rewrite(link: re.Match[str]) -> str:
        path = normpath(str(PurePosixPath(page).parent / link["path"]))
        place = place_in_site(path)
        if place is None:
            return f"{SOURCE}/{'tree' if (ROOT / path).is_dir() else 'blob'}/main/{path}{link['anchor'] or ''}"
        return relpath(place, str(PurePosixPath(here).parent)) + (link["anchor"] or "")

    return _outside_code(lambda prose: _LINK.sub(rewrite, prose), text)


def indent_nested_lists(text: str) -> str:
    """Returns the text with four spaces before the items of nested lists, as MkDocs needs them."""
    return _outside_code(lambda prose: _NESTED_ITEM.sub("    ", prose), text)


def _outside_code(change: Callable[[str], str], text: str) -> str:
    """Returns the text with a change of all that is not in fenced blocks."""
    pieces, end = [], 0
    for fence in _FENCE.finditer(text):
        pieces += [change(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*pieces, change(text[end:])])


def gather_pages(target: Path) -> None:
    """Writes the pages and pictures of the site, and the settings of MkDocs, to a folder."""
    docs = [file.relative_to(ROOT).as_posix() for file in (ROOT / "docs").rglob("*") if file.is_file()]
    for path in (*_ROOT_PAGES, *_FILES, *docs):
        place = place_in_site(path)
        assert place is not None, path
        file = target / "pages" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(".md"):
            file.write_text(indent_nested_lists(rewrite_links((ROOT / path).read_text(), path)))
        else:
            shutil.copy(ROOT / path, file)
    settings = SETTINGS.read_text()
    records = sorted(path.removeprefix("docs/") for path in docs if re.search(r"adr/\d", path))
    # Decisions are found by their list and by the search, not by the navigation.
    (target / "mkdocs.yml").write_text(
        settings + yaml.safe_dump({"not_in_nav": "\n".join(f"/{path}" for path in records)})
    )


def find_outside_hosts(site: Path) -> Iterator[str]:
    """Yields what the pages and styles of a built site load from other hosts."""
    for pattern, expression in (("*.html", _LOADED), ("*.css", _LOADED_STYLE)):
        for file in sorted(site.rglob(pattern)):
            yield from (f"{file.relative_to(site)}: {address}" for address in expression.findall(file.read_text()))


def build_site(python: str, site: Path) -> None:
    """Builds the site with the MkDocs of an environment. Exits with 1 if it cannot be built strictly."""
    with tempfile.TemporaryDirectory() as folder:
        gather_pages(Path(folder))
        command = [python, "-m", "mkdocs", "build", "--strict", "--clean", "--site-dir", str(site.absolute())]
        environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # a notice of the theme about its successor
        # Not --quiet: in that mode warnings are not counted, and nothing is strict.
        done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
    if outside := list(find_outside_hosts(site)):
        sys.exit("the site loads from other hosts:\n" + "\n".join(outside))
    sys.stdout.write(f"{site / 'index.html'}\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m scripts.docs.site PYTHON FOLDER")
    build_site(sys.argv[1], Path(sys.argv[2]))
