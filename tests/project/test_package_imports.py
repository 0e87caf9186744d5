"""Each package imports only what the sentence "May import …" of its docstring allows.

The sentence lists packages and modules by their dotted names in backticks. Each name covers itself and everything below
it. Some phrases have a meaning of their own:

- "the packages below it", "the modules below them": the lower layers of the import contracts in pyproject.toml
- "the packages below the dialects": the layers below the dialects of `translation`
- "what `a.b` may", "what that may import": `a.b`, and what the sentence of `a.b` allows
- "`gateway` but `gateway.cli`": the first without the second

The sentence ends at a full stop or a semicolon. The words behind it explain it.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("bench", "dataplane", "gateway", "providers", "translation")
PROJECT_FOLDERS = (*FOLDERS, "responses_gateway_clients", "scripts", "tests")
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]

_DIALECTS = "the packages below the dialects"
_SENTENCE = re.compile(r"May import (?P<list>(?:`[^`]*`|[^`.;])*)")
_NAME = re.compile(r"`([a-z_]+(?:\.[a-z_]+)*)`")
_BELOW = re.compile(r"(?:packages|modules) below (?:it|them)|what is below it")
_INDIRECT = re.compile(r"what (?:`([\w.]+)`|that|those) may")


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(file): file for folder in PROJECT_FOLDERS for file in (ROOT / folder).rglob("*.py")}
PACKAGES = sorted(
    name for name, file in MODULES.items() if file.name == "__init__.py" and name.split(".")[0] in FOLDERS
)


class Rule(NamedTuple):
    """The modules that a package may import: all below `allowed`, without those below `excluded`."""

    allowed: frozenset[str]
    excluded: frozenset[str] = frozenset()

    def covers(self, module: str) -> bool:
        return is_below(module, self.allowed) and not is_below(module, self.excluded)


def is_below(module: str, names: frozenset[str]) -> bool:
    """Returns whether the module is one of the names, or below one."""
    return any(module == name or module.startswith(f"{name}.") for name in names)


@cache
def layers() -> list[list[list[str]]]:
    """Returns the contracts of pyproject.toml with layers: the full names of each layer, the highest first."""
    contracts = [contract for contract in CONTRACTS if contract["type"] == "layers"]
    return [
        [
            [f"{container}.{name}" if container else name for name in re.split(r"\s*[|:]\s*", layer)]
            for layer in contract["layers"]
        ]
        for contract in contracts
        for container in contract.get("containers", [""])
    ]


def names_below(name: str) -> Iterator[str]:
    """Yields the names in lower layers than the name itself, and in lower layers than the packages that it is in."""
    for contract in layers():
        for position, layer in enumerate(contract):
            if any(is_below(name, frozenset({member})) for member in layer):
                yield from (member for lower in contract[position + 1 :] for member in lower)


@cache
def rule_of(package: str) -> Rule:
    docstring = " ".join((ast.get_docstring(ast.parse(MODULES[package].read_text())) or "").split())
    sentence = "".join(match["list"] for match in _SENTENCE.finditer(docstring))
    sentence, _, exceptions = sentence.partition(" but ")
    names = _NAME.findall(sentence)
    allowed = {*names}
    if _BELOW.search(sentence):
        allowed |= {below for name in names for below in names_below(name)}
    if _DIALECTS in sentence:
        allowed |= {below for below in names_below("translation.chat") if below.startswith("translation.")}
    for indirect in _INDIRECT.findall(sentence):
        for name in [indirect] if indirect else names:
            allowed |= {name, *rule_of(name).allowed} if name in PACKAGES else {name}
    return Rule(frozenset(allowed), frozenset(_NAME.findall(exceptions)))


def imports_of(package: str) -> Iterator[tuple[str, str]]:
    """Yields the imports of the package's own modules from outside of it: the importing and the imported module."""
    for importer, file in MODULES.items():
        if (importer if importer in PACKAGES else importer.rpartition(".")[0]) != package:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            for imported in imported_names(node):
                if imported.split(".")[0] in PROJECT_FOLDERS and not is_below(imported, frozenset({package})):
                    yield importer, imported


def imported_names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{alias.name}" for alias in node.names]
        return [name if name in MODULES else str(node.module) for name in names]
    return []


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_what_its_docstring_allows(package: str) -> None:
    rule = rule_of(package)
    unlisted = sorted({f"{importer} imports {name}" for importer, name in imports_of(package) if not rule.covers(name)})
    assert unlisted == [], f'the docstring of {package} does not allow this in its sentence "May import …"'


@pytest.mark.parametrize("package", PACKAGES)
def test_the_names_in_a_sentence_about_imports_exist(package: str) -> None:
    rule = rule_of(package)
    named = {name for name in rule.allowed | rule.excluded if name.split(".")[0] in PROJECT_FOLDERS}
    assert sorted(named - MODULES.keys()) == []
