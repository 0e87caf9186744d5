"""Fetches what the tests of the pages need: axe, which examines a page for what people with disabilities cannot use.

`python -m scripts.page_tools` fills a folder outside the clone, named after the lock, and prints it. The script is
part of a package of the usual index.
"""

import zipfile
from pathlib import Path
from typing import Final

from scripts.wheel_files import fetch_files, find_folder

LOCK: Final = Path(__file__).parents[1] / "requirements/pages.txt"
_AXE: Final = "axe.min.js"


def find_axe() -> Path | None:
    """Returns the script; None if it was not fetched."""
    file = find_folder(LOCK) / _AXE
    return file if file.exists() else None


def fetch_tools() -> Path:
    """Fills the folder, unless it is full. Returns it."""
    return fetch_files(LOCK, _unpack_axe)


def _unpack_axe(files: zipfile.ZipFile, folder: Path) -> None:
    for name in files.namelist():
        if name.endswith(f"/{_AXE}"):
            (folder / _AXE).write_bytes(files.read(name))


if __name__ == "__main__":
    print(fetch_tools())
