"""What the code imports, pyproject.toml declares, docs/dependencies.md describes and the locks pin."""

import ast
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / "tests/clients"
LOCKS = sorted([*(ROOT / "requirements").glob("*.txt"), CLIENTS / "requirements.txt"])
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, GROUPS = PYPROJECT["project"], PYPROJECT["dependency-groups"]
OWN = {"bench", "dataplane", "gateway", "providers", "responses_gateway_clients", "scripts", "tests", "translation"}
SERVER = ("dataplane", "gateway", "providers", "translation")


def names(requirements: Iterable[str]) -> set[str]:
    """The packages, without the project itself: the extra `all` names others of its extras."""
    found: set[str] = {canonicalize_name(Requirement(requirement).name) for requirement in requirements}
    return found - {PROJECT["name"]}


def listed(file: str) -> set[str]:
    """The packages of a list of requirements."""
    return names(line for line in (ROOT / file).read_text().splitlines() if line[:1] != "#")


RUNTIME = names(PROJECT["dependencies"])
OPTIONAL = PROJECT["optional-dependencies"]
EXTRAS = names(chain(*OPTIONAL.values()))
DEV = names(GROUPS["dev"])
PEERS, PLOT = listed("requirements/peers.in"), listed("requirements/plot.in")
RETRIEVAL = listed("requirements/retrieval.in")
PACKAGE, SITE = listed("requirements/package.in"), listed("requirements/site.in")
CHART, PAGES = listed("requirements/chart.in"), listed("requirements/pages.in")

EXTRA_FOLDERS = {
    "langchain-core": "responses_gateway_clients",
    "markitdown": "gateway/retrieval/parsing",
    "obstore": "gateway/blobs",
    "openai-harmony": "providers/harmony",
    "opentelemetry-exporter-otlp-proto-http": "gateway/tracing",
    "opentelemetry-sdk": "gateway/tracing",
    "vllm": "providers/vllm_inprocess",
    "xllamacpp": "providers/llamacpp",
}
"""Package of an extra -> the only folder of the product that may import it, because it may be missing."""

APART = ("scripts/tiny_model", "tests/clients/programs")
"""Folders whose programs run in environments of their own."""

UNDECLARED = {
    "compression": "the standard library has it from Python 3.14 on",
    "openpyxl": "the extra `markitdown` brings the version that it works with",
    "pdfminer-six": "the same",
    "python-pptx": "the same",
    "rich": "a test imports it to see that the server's process refuses it",
    "xgrammar": "vLLM requires the one version that it works with",
}
"""Imported package -> why nothing declares it."""

NEVER_IMPORTED = {
    "opentelemetry-sdk": "its package `opentelemetry` is shared with the exporter, whose name stands for both",
    "uvloop": "uvicorn chooses it as the event loop where it is installed",
}
"""Package that the server needs -> why the product does not import it."""


@pytest.mark.parametrize(
    ("heading", "declared"),
    [
        ("What the server needs", RUNTIME),
        ("What the extras bring", EXTRAS),
        ("What its developers need on top", DEV),
        ("What packaging and the site install apart", PACKAGE | SITE | CHART | PAGES),
        ("What the benchmark installs apart", PEERS | PLOT | RETRIEVAL),
    ],
)
def test_every_dependency_has_its_reason(heading: str, declared: set[str]) -> None:
    section = (ROOT / "docs/dependencies.md").read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    reasons = dict(re.findall(r"^\| `([^`]+)` \| (\S.*) \|$", section, flags=re.MULTILINE))
    assert {canonicalize_name(name) for name in reasons} == declared


@pytest.mark.parametrize(
    ("folders", "declared"),
    [
        (SERVER, RUNTIME | EXTRAS),
        (("responses_gateway_clients",), RUNTIME | EXTRAS),
        (("bench",), RUNTIME | DEV | PLOT | RETRIEVAL),
        (("scripts", "tests"), RUNTIME | DEV),
    ],
    ids=["the server", "the clients", "the benchmark", "scripts and tests"],
)
def test_every_imported_package_is_declared(folders: tuple[str, ...], declared: set[str]) -> None:
    undeclared = {
        f"{file.relative_to(ROOT)} imports {package}"
        for file, package in imports_of(*folders)
        if package not in declared and package not in UNDECLARED
    }
    assert sorted(undeclared) == []


def test_packages_of_an_extra_are_imported_in_one_folder_only() -> None:
    assert EXTRA_FOLDERS.keys() == EXTRAS - RUNTIME
    elsewhere = {
        f"{file.relative_to(ROOT)} imports {package}"
        for file, package in imports_of(*SERVER, "responses_gateway_clients")
        if package in EXTRA_FOLDERS and not file.is_relative_to(ROOT / EXTRA_FOLDERS[package])
    }
    assert sorted(elsewhere) == []


def test_the_product_imports_what_it_declares() -> None:
    imported = {package for _, package in imports_of(*SERVER, "responses_gateway_clients")}
    assert (RUNTIME | EXTRAS) - imported == NEVER_IMPORTED.keys()


def test_exceptions_are_needed() -> None:
    imported = {package for _, package in imports_of(*SERVER, "tests")}
    assert imported & UNDECLARED.keys() == UNDECLARED.keys()
    assert (RUNTIME | EXTRAS | DEV).isdisjoint(UNDECLARED)


@pytest.mark.parametrize(("package", "folder"), [("respx", "tests"), ("sse-starlette", "bench")])
def test_development_dependencies_are_used_as_documented(package: str, folder: str) -> None:
    assert package in {imported for _, imported in imports_of(folder)}
    assert package not in {imported for _, imported in imports_of(*SERVER, "responses_gateway_clients")}


@cache
def imports_of(*folders: str) -> tuple[tuple[Path, str], ...]:
    """Returns each file of the folders with each package of others that it imports, by canonical name."""
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    left = [file for file in files if not any(file.is_relative_to(ROOT / folder) for folder in APART)]
    return tuple((file, package) for file in left for package in {*imported_packages(ast.parse(file.read_text()))})


def imported_packages(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules = [node.module or ""]
        for module in modules:
            name = module.partition(".")[0]
            if name not in sys.stdlib_module_names and name not in OWN:
                yield distribution_of(name)


@cache
def distribution_of(module: str) -> str:
    """Returns the package that brings a module. One that is not installed here is named like its module."""
    return canonicalize_name(_read_distributions().get(module, [module])[0])


_read_distributions = cache(packages_distributions)  # it reads the files of all packages


def requirements(lock: Path) -> list[str]:
    """The logical lines of a lock: one requirement each, with its hashes."""
    lines = [line for line in lock.read_text().splitlines() if not line.lstrip().startswith("#")]
    return [line for line in "\n".join(lines).replace("\\\n", " ").splitlines() if line.strip()]


def pins(lock: Path) -> dict[str, str]:
    """Returns the versions that a lock installs, by canonical name."""
    found: dict[str, str] = {}
    for line in requirements(lock):
        requirement = Requirement(line.split("--hash", 1)[0])
        (specifier,) = requirement.specifier
        assert specifier.operator == "==", line
        found[canonicalize_name(requirement.name)] = specifier.version
    return found


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: str(lock.relative_to(ROOT)))
def test_every_requirement_carries_hashes(lock: Path) -> None:
    for line in requirements(lock):
        assert re.search(r"--hash=sha256:[0-9a-f]{64}(\s|$)", line), line


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: str(lock.relative_to(ROOT)))
def test_no_lock_names_a_host_or_a_place_on_a_disk(lock: Path) -> None:
    text = lock.read_text()
    assert not re.search(r"://|index-url|trusted-host|find-links|@ file|\bwww\.|\.(org|com|net|io)\b", text)


@pytest.mark.parametrize(
    ("lock", "declared"),
    [
        ("runtime.txt", PROJECT["dependencies"]),
        ("image.txt", PROJECT["dependencies"] + OPTIONAL["llamacpp"] + OPTIONAL["s3"] + OPTIONAL["tracing"]),
        ("serving.txt", PROJECT["dependencies"] + OPTIONAL["llamacpp"] + GROUPS["build"]),
        ("dev.txt", PROJECT["dependencies"] + GROUPS["dev"]),
    ],
    ids=["what the server needs", "what the image has", "what make run needs", "what its developers need on top"],
)
def test_a_lock_covers_what_pyproject_declares(lock: str, declared: list[str]) -> None:
    locked = pins(ROOT / "requirements" / lock)
    for requirement in map(Requirement, declared):
        version = locked.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement} is not in {lock}: run scripts/lock"
        assert requirement.specifier.contains(version), f"{lock} pins {version}, pyproject asks for {requirement}"


@pytest.mark.parametrize(
    ("name", "declared"),
    [("package", PACKAGE), ("peers", PEERS), ("plot", PLOT), ("retrieval", RETRIEVAL), ("site", SITE)],
)
def test_a_lock_covers_what_is_installed_apart(name: str, declared: set[str]) -> None:
    assert declared <= pins(ROOT / f"requirements/{name}.txt").keys()


def test_developers_run_the_versions_that_users_run() -> None:
    developers = pins(ROOT / "requirements/dev.txt").items()
    for name in ("runtime", "image", "serving"):
        assert pins(ROOT / f"requirements/{name}.txt").items() <= developers


def test_serving_needs_no_tool_of_developers() -> None:
    serving = pins(ROOT / "requirements/serving.txt").keys()
    tools = DEV - RUNTIME - names(OPTIONAL["llamacpp"]) - names(GROUPS["build"])
    assert tools >= {"mypy", "pytest", "ruff"}
    # A tool may also be what a dependency of the server depends on.
    assert not tools & serving - pins(ROOT / "requirements/runtime.txt").keys()


def test_every_npm_package_carries_its_hash_and_no_address() -> None:
    packages = json.loads((CLIENTS / "package-lock.json").read_text())["packages"]
    declared = json.loads((CLIENTS / "package.json").read_text())["dependencies"]
    assert packages.pop("")["dependencies"] == declared, "run scripts/lock"
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert not any("resolved" in package for package in packages.values())
