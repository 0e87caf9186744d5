"""Every regular expression of the code takes linear time, whatever text it gets.

A search holds the interpreter's lock, so one long text would hold up all clients of a worker. Texts come from clients,
models, servers, web pages and files. Each pattern is tried as the code uses it, on texts that are written for it.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

import pytest

from tests.project.long_texts.hostile_texts import HostileText, list_hostile_texts
from tests.project.long_texts.time_growth import find_superlinear_time

PACKAGES: Final = ("dataplane", "gateway", "providers", "translation")

UNIMPORTABLE: Final = frozenset(
    {
        "gateway.state.migrations.env",  # runs a migration
        "providers.vllm_inprocess.library",  # imports vLLM
        "providers.vllm_inprocess.parser_library",
    }
)

METHODS_IN_LOOPS: Final[Mapping[str, str]] = {
    "translation.gemini.upstream.families._FAMILIES": "match",
}
"""Table of patterns -> the method by which a loop uses them."""

_SIZE: Final = 4_000
_METHODS: Final = ("match", "fullmatch", "search", "finditer", "findall", "sub", "subn", "split")
_ROOT: Final = Path(__file__).parents[3]


class Usage(NamedTuple):
    """A pattern, and the methods by which the code uses it."""

    name: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]


@cache
def read_source(package: str) -> str:
    return "\n".join(path.read_text() for path in sorted((_ROOT / package).rglob("*.py")))


def list_modules(package: str) -> Iterator[ModuleType]:
    root = importlib.import_module(package)
    yield root
    for module in pkgutil.walk_packages(root.__path__, f"{package}."):
        if module.name not in UNIMPORTABLE:
            yield importlib.import_module(module.name)


def list_patterns(value: Any) -> Iterator[tuple[re.Pattern[Any], str]]:
    """Yields the patterns in the value of a module, each with the method that it is used by, if the value says it."""
    if isinstance(value, re.Pattern):
        yield value, ""
    elif isinstance(owner := getattr(value, "__self__", None), re.Pattern):
        yield owner, value.__name__
    elif isinstance(value, dict):
        for each in value.values():
            yield from list_patterns(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from list_patterns(each)


def list_usages(package: str) -> Iterator[Usage]:
    """Yields the patterns of a package, each once, with the methods by which the code uses them."""
    seen: set[int] = set()
    for module in list_modules(package):
        for name, value in [*vars(module).items()]:
            for pattern, method in list_patterns(value):
                if id(pattern) in seen:
                    continue
                seen.add(id(pattern))
                sources = (
                    [Path(module.__file__ or "").read_text()] if name.startswith("_") else map(read_source, PACKAGES)
                )
                calls = rf"\b{name}(?:\[\w+\])?\.({'|'.join(_METHODS)})\b"
                found = {found for source in sources for found in re.findall(calls, source)}
                full_name = f"{module.__name__}.{name}"
                if method := method or METHODS_IN_LOOPS.get(full_name, ""):
                    found = {method}
                yield Usage(full_name, pattern, frozenset(found or _METHODS))


def run(usage: Usage, method: str, hostile: HostileText, size: int) -> None:
    text: Any = hostile.build(size)
    if isinstance(usage.pattern.pattern, bytes):
        text = text.encode("latin-1", "replace")
    if method in ("match", "fullmatch"):
        getattr(usage.pattern, method)(text)
    else:
        for _ in usage.pattern.finditer(text):
            pass


def find_slow_use(usage: Usage) -> str | None:
    methods = {method if method in ("match", "fullmatch") else "finditer" for method in usage.methods}
    for hostile in list_hostile_texts(usage.pattern):
        for method in methods:
            if times := find_superlinear_time(partial(run, usage, method, hostile), _SIZE):
                return f"{usage.name}.{method} on {hostile.beginning!r} and {hostile.unit!r}: {times}"
    return None


@pytest.mark.parametrize("package", PACKAGES)
def test_every_pattern_takes_linear_time_on_every_text(package: str) -> None:
    slow = [found for usage in list_usages(package) if (found := find_slow_use(usage))]
    assert slow == []


LAZY = re.compile(r'\s*\{\s*"value"\s*:\s*(.*?)\s*\}\s*', re.DOTALL)

SLOW: Mapping[str, Usage] = {
    "a lazy group between white space": Usage("", LAZY, frozenset({"fullmatch"})),
    "a run that nothing follows": Usage("", re.compile(r"_+([a-z])"), frozenset({"sub"})),
    "neighbours of one class": Usage("", re.compile(rb"a\s*b?\s*c"), frozenset({"match"})),
    "alternatives that overlap": Usage("", re.compile(r"(?:[^\W_]|\d)*,.*,.*x"), frozenset({"match"})),
}


@pytest.mark.parametrize("usage", SLOW.values(), ids=SLOW)
def test_a_pattern_that_takes_longer_is_found(usage: Usage) -> None:
    assert find_slow_use(usage)
