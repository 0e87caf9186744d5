"""What users install: the source distribution, and the wheel that is built from it with a C compiler and without."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import httpx
import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
MODEL = "providers/demo/tiny-reasoner.gguf"
PACKAGES = ("dataplane", "gateway", "providers", "responses_gateway_clients", "translation")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

pytestmark = pytest.mark.timeout(180)  # a wheel is built


def build(backend_call: str, sources: Path, target: Path, **environ: str) -> Path:
    """Builds as installers do, by the build backend, and returns the file. Compiled code need not be fast."""
    program = f"from setuptools import build_meta; build_meta.{backend_call}({str(target)!r})"
    environment = {**os.environ, "CFLAGS": "-O0", **environ}
    subprocess.run([sys.executable, "-c", program], cwd=sources, env=environment, capture_output=True, check=True)
    [file] = target.iterdir()
    return file


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked source distribution, which is built from the tracked files."""
    sources, target = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("sdist")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in tracked.decode().split("\0"):
        if name.split("/")[0] in PACKAGES or "/" not in name:
            file = sources / name
            file.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_file():
                file.write_bytes((ROOT / name).read_bytes())
    with tarfile.open(build("build_sdist", sources, target)) as archive:
        archive.extractall(target, filter="data")
    [unpacked] = (path for path in target.iterdir() if path.is_dir())
    return unpacked


@pytest.fixture(scope="module")
def wheel(released: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel as it is built where there is no C compiler."""
    no_compiler = {"CC": "/nowhere/cc", "CXX": "/nowhere/c++"}
    return zipfile.ZipFile(build("build_wheel", released, tmp_path_factory.mktemp("wheel"), **no_compiler))


def compiled_modules(wheel: zipfile.ZipFile) -> list[str]:
    return [name.partition(".")[0] for name in wheel.namelist() if name.endswith((".so", ".pyd"))]


def test_a_wheel_can_be_built_without_a_compiler(wheel: zipfile.ZipFile) -> None:
    assert compiled_modules(wheel) == []
    assert "dataplane/python_core.py" in wheel.namelist()


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine; .ci/run installs one")
def test_with_a_compiler_the_core_is_in_the_wheel(released: Path, tmp_path: Path) -> None:
    wheel = zipfile.ZipFile(build("build_wheel", released, tmp_path))
    assert compiled_modules(wheel) == ["dataplane/compiled_core"]


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
    assert {folder for folder in folders if not folder.endswith(".dist-info")} == {*PACKAGES, "responses_gateway.py"}
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
        "Project-URL: Documentation, ",
        "Project-URL: Issues, ",
        "Project-URL: Source, ",
        "Summary: ",
    ):
        assert any(line.startswith(field) for line in lines), field
    assert "Classifier: Typing :: Typed" in lines
    assert not any("License ::" in line for line in lines), "indexes refuse it beside a license expression"


def test_the_extra_all_names_every_other_but_the_largest(wheel: zipfile.ZipFile) -> None:
    extras = PROJECT["optional-dependencies"]
    [requirement] = map(Requirement, extras["all"])
    assert requirement.name == PROJECT["name"]
    assert requirement.extras == extras.keys() - {"all", "markitdown", "vllm"}


def test_no_extra_names_a_package_of_this_repository() -> None:
    """Only the package itself is published: no other could be installed."""
    own = {PROJECT["name"]}
    for extra, requirements in PROJECT["optional-dependencies"].items():
        named = {Requirement(requirement).name for requirement in requirements}
        assert not [name for name in named - own if name.startswith(PROJECT["name"])], extra


def test_every_project_url_begins_with_the_address_of_the_source() -> None:
    urls = PROJECT["urls"]
    assert {"Changelog", "Documentation", "Issues", "Source"} <= urls.keys()
    assert [url for url in urls.values() if not url.startswith(urls["Source"])] == []


def test_the_wheel_serves_outside_of_the_clone(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    site, folder = tmp_path / "site", tmp_path / "elsewhere"
    wheel.extractall(site)
    folder.mkdir()
    (folder / "config.yaml").write_text(
        "providers: {s: {type: scripted}}\nmodels: {m: {provider: s}}\nstore: {url: null}\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(site)}
    where = [sys.executable, "-P", "-c", "import gateway; print(gateway.__file__)"]
    found = subprocess.run(where, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout
    assert Path(found.strip()).is_relative_to(site)
    command = [sys.executable, "-P", "-m", "responses_gateway", "serve", "--port", "0"]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().removeprefix("listening on ").strip()
            body = {"model": "m", "input": "Hi"}
            reply = httpx.post(f"{url}/v1/responses", json=body, verify=False, trust_env=False, timeout=60)
            assert reply.json()["status"] == "completed"
            for path in ("/docs", "/pages/home.js", "/pages/base.css", "/pages/home.json"):
                assert httpx.get(url + path, verify=False, trust_env=False, timeout=60).status_code == 200
        finally:
            server.terminate()
    assert server.returncode == 0
