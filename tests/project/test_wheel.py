"""The wheel that users install: with the demo model, and with the extra that runs it."""

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = ("pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
MODEL = "providers/demo/tiny-reasoner.gguf"

pytestmark = pytest.mark.timeout(180)  # a wheel is built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    sources = tmp_path_factory.mktemp("sources")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in tracked.decode().split("\0"):
        if name.split("/")[0] in ("clients", "dataplane", "gateway", "providers", "translation") or "/" not in name:
            target = sources / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_file():
                target.write_bytes((ROOT / name).read_bytes())
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", *BUILD, "--wheel-dir", str(folder), "."], cwd=sources, check=True)
    [file] = folder.glob("*.whl")
    return zipfile.ZipFile(file)


def test_it_carries_the_demo_model(wheel: zipfile.ZipFile) -> None:
    assert hashlib.sha256(wheel.read(MODEL)).digest() == hashlib.sha256((ROOT / MODEL).read_bytes()).digest()


def test_its_extra_for_the_demo_brings_llama_cpp(wheel: zipfile.ZipFile) -> None:
    [metadata] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    lines = wheel.read(metadata).decode().splitlines()
    assert "Provides-Extra: demo" in lines
    assert any(line.startswith("Requires-Dist: xllamacpp") and line.endswith('extra == "demo"') for line in lines)
