"""The wheel that users install: with the demo model, and with the extra that runs it."""

import hashlib
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import httpx
import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
BUILD = ("pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
MODEL = "providers/demo/tiny-reasoner.gguf"
PACKAGES = ("dataplane", "gateway", "providers", "responses_gateway_clients", "translation")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CORE = tomllib.loads((ROOT / "core/pyproject.toml").read_text())["project"]

pytestmark = pytest.mark.timeout(180)  # a wheel is built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    sources = tmp_path_factory.mktemp("sources")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in tracked.decode().split("\0"):
        if name.split("/")[0] in PACKAGES or "/" not in name:
            target = sources / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_file():
                target.write_bytes((ROOT / name).read_bytes())
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", *BUILD, "--wheel-dir", str(folder), "."], cwd=sources, check=True)
    [file] = folder.glob("*.whl")
    return zipfile.ZipFile(file)


def test_the_wheel_contains_the_demo_model(wheel: zipfile.ZipFile) -> None:
    assert hashlib.sha256(wheel.read(MODEL)).digest() == hashlib.sha256((ROOT / MODEL).read_bytes()).digest()


def metadata_of(wheel: zipfile.ZipFile) -> list[str]:
    [metadata] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return wheel.read(metadata).decode().splitlines()


def test_the_extra_for_the_demo_installs_llama_cpp(wheel: zipfile.ZipFile) -> None:
    lines = metadata_of(wheel)
    assert "Provides-Extra: demo" in lines
    assert any(line.startswith("Requires-Dist: xllamacpp") and line.endswith('extra == "demo"') for line in lines)


def test_the_wheel_has_the_packages_of_the_gateway_their_types_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    folders = {name.split("/")[0] for name in names}
    assert {folder for folder in folders if not folder.endswith(".dist-info")} == set(PACKAGES)
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)
    tracked = subprocess.run(["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True)
    missing = set(tracked.stdout.split()) - set(names)
    assert {name for name in missing if (ROOT / name).is_file()} == set(), "a file that the code may need"


def test_the_metadata_describes_the_package(wheel: zipfile.ZipFile) -> None:
    lines = metadata_of(wheel)
    for field in (
        "Author: ",
        "Classifier: ",
        "Keywords: ",
        "License-Expression: ",
        "Project-URL: Homepage, ",
        "Summary: ",
    ):
        assert any(line.startswith(field) for line in lines), field
    assert "Classifier: Typing :: Typed" in lines
    assert not any("License ::" in line for line in lines), "indexes refuse it beside a license expression"


def test_the_extra_all_names_every_other_but_vllm(wheel: zipfile.ZipFile) -> None:
    extras = PROJECT["optional-dependencies"]
    [requirement] = map(Requirement, extras["all"])
    assert requirement.name == PROJECT["name"]
    assert requirement.extras == extras.keys() - {"all", "vllm"}


def test_the_extra_core_is_the_core_of_this_version() -> None:
    assert PROJECT["optional-dependencies"]["core"] == [f"{CORE['name']}=={CORE['version']}"]
    assert CORE["version"] == PROJECT["version"]


def test_the_wheel_serves_outside_of_the_clone(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    site, folder = tmp_path / "site", tmp_path / "elsewhere"
    wheel.extractall(site)
    folder.mkdir()
    (folder / "config.yaml").write_text(
        "providers: {s: {type: scripted}}\nmodels: {m: {provider: s}}\nstore: {url: null}\n"
    )
    program = "import gateway; print(gateway.__file__, flush=True); from gateway.cli.commands import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-P", "-c", program, "serve", "--port", "0"]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert Path(server.stdout.readline().strip()).is_relative_to(site)
            url = server.stdout.readline().removeprefix("listening on ").strip()
            body = {"model": "m", "input": "Hi"}
            reply = httpx.post(f"{url}/v1/responses", json=body, verify=False, trust_env=False, timeout=30)
            assert reply.json()["status"] == "completed"
            for path in ("/docs", "/pages/home.js", "/pages/base.css", "/pages/home.json"):
                assert httpx.get(url + path, verify=False, trust_env=False, timeout=30).status_code == 200
        finally:
            server.terminate()
    assert server.returncode == 0
