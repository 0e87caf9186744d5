"""The lock files: complete, pinned, hashed, and silent about where packages come from."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / "tests/clients"
LOCKS = sorted([*(ROOT / "requirements").glob("*.txt"), CLIENTS / "requirements.txt"])
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUNTIME = PYPROJECT["project"]["dependencies"]
DEV = PYPROJECT["dependency-groups"]["dev"]
BUILD = PYPROJECT["dependency-groups"]["build"]
EXTRAS = PYPROJECT["project"]["optional-dependencies"]


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
        ("runtime.txt", RUNTIME),
        ("llamacpp.txt", RUNTIME + EXTRAS["llamacpp"]),
        ("serving.txt", RUNTIME + EXTRAS["llamacpp"] + BUILD),
        ("dev.txt", RUNTIME + DEV),
    ],
    ids=["what the server needs", "the same with llama.cpp", "what make run needs", "what its developers need on top"],
)
def test_a_lock_covers_what_pyproject_declares(lock: str, declared: list[str]) -> None:
    locked = pins(ROOT / "requirements" / lock)
    for requirement in map(Requirement, declared):
        version = locked.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement} is not in {lock}: run scripts/lock"
        assert requirement.specifier.contains(version), f"{lock} pins {version}, pyproject asks for {requirement}"


@pytest.mark.parametrize("name", ["peers", "plot"])
def test_a_lock_covers_what_is_installed_apart(name: str) -> None:
    declared = [line for line in (ROOT / f"requirements/{name}.in").read_text().splitlines() if line[:1] != "#"]
    locked = pins(ROOT / f"requirements/{name}.txt")
    assert {canonicalize_name(Requirement(line).name) for line in declared} <= set(locked)


def test_developers_run_the_versions_that_users_run() -> None:
    developers = pins(ROOT / "requirements/dev.txt").items()
    for name in ("runtime", "llamacpp", "serving"):
        assert pins(ROOT / f"requirements/{name}.txt").items() <= developers


def test_serving_needs_no_tool_of_developers() -> None:
    serving = pins(ROOT / "requirements/serving.txt").keys()
    tools = {canonicalize_name(Requirement(line).name) for line in DEV} - {
        canonicalize_name(Requirement(line).name) for line in (*RUNTIME, *EXTRAS["llamacpp"], *BUILD)
    }
    assert tools >= {"mypy", "pytest", "ruff"}
    # A tool may also be what a dependency of the server depends on.
    assert not tools & serving - pins(ROOT / "requirements/runtime.txt").keys()


def test_every_npm_package_carries_its_hash_and_no_address() -> None:
    packages = json.loads((CLIENTS / "package-lock.json").read_text())["packages"]
    declared = json.loads((CLIENTS / "package.json").read_text())["dependencies"]
    assert packages.pop("")["dependencies"] == declared, "run scripts/lock"
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert not any("resolved" in package for package in packages.values())
