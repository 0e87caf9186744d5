"""Checks that nothing chooses by a name that it should not know: `python -m scripts.check_choices`.

- The name of a client API belongs to its packages: `gateway/dialects/<api>/` and `translation/<api>/`, which may
  compare their own name and no other. All other code asks the endpoint's row. It neither compares an API's name nor
  has tables of such names. The dialects of an upstream have the same names: `providers/` chooses by them, and other
  code may ask which of them an upstream has (`UPSTREAM_FACTS`).
- The type of an upstream belongs to its adapter and profile in `providers/`. The configuration has tables of types, and
  code elsewhere compares none.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from providers.config import PROVIDER_DEFAULTS
from scripts.check_names import Module, Problem, parse_modules

ROOT: Final = Path(__file__).parents[1]

FOLDERS: Final = ("gateway", "dataplane", "translation")

API_NAMES: Final = frozenset(path.parent.name for path in (ROOT / "gateway/dialects").glob("*/__init__.py"))

_HOMES: Final = {
    folder / name: name for folder in (Path("gateway/dialects"), Path("translation")) for name in sorted(API_NAMES)
}
"""The folders of the APIs, each with the name that its code may compare."""

_TYPE_HOMES: Final = (Path("translation/messages"), Path("translation/gemini"), Path("translation/ollama"))
"""Where the types of the upstreams with an API of this name may be compared."""

UPSTREAM_FACTS: Final = frozenset({"dialects", "counting"})
"""The facts about an upstream whose values are names of APIs."""


def main() -> None:
    """Prints every problem, and exits with status 1 if there are any."""
    modules = parse_modules(ROOT, FOLDERS)
    problems = sorted([*check_api_names(modules), *check_upstream_types(modules)])
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(1)


def check_api_names(modules: Iterable[Module]) -> Iterator[Problem]:
    """Reports choices by the name of a client API."""
    for module in modules:
        own = next((name for home, name in _HOMES.items() if module.path.is_relative_to(home)), None)
        yield from (Problem(module.path, line, text) for line, text in find_api_choices(module.tree, own))


def find_api_choices(tree: ast.AST, own: str | None = None) -> Iterator[tuple[int, str]]:
    """Yields the line of each choice by the name of a client API but `own`, and what to do about it."""
    foreign = API_NAMES - {own}
    for node in ast.walk(tree):
        match node:
            case ast.Compare() if _compares_api(node, foreign):
                yield node.lineno, f"`{ast.unparse(node)}` compares the name of an API. Ask the endpoint's row."
            case ast.MatchValue(value=ast.Constant(value=str(name))) if name in foreign:
                yield node.lineno, f"A case compares the name of an API, {name}. Ask the endpoint's row."
            case ast.Dict(keys=keys) if _are_api_names(keys):
                yield node.lineno, "A table has names of APIs as keys. Make it a field of the endpoint's row."
            case ast.Tuple(elts=names) | ast.List(elts=names) | ast.Set(elts=names) if _are_api_names(names):
                yield node.lineno, "A list has names of APIs. Make it a field of the endpoint's row."
            case ast.Subscript(slice=key) | ast.Call(func=ast.Attribute(attr="get"), args=[key, *_]) if _is_dialect(
                key
            ):
                yield node.lineno, f"`{ast.unparse(node)}` is a table of APIs. Make it a field of the endpoint's row."


def _compares_api(node: ast.Compare, names_of_apis: frozenset[str]) -> bool:
    operands = [node.left, *node.comparators]
    if any(_last_name(operand) in UPSTREAM_FACTS for operand in operands):
        return False
    names = [operand for operand in operands if isinstance(operand, ast.Constant) and operand.value in names_of_apis]
    if not names:
        return False
    # `"messages" in body` asks for a key, not for an API.
    is_key = isinstance(node.ops[0], ast.In | ast.NotIn) and node.left is names[0]
    return not is_key


def _are_api_names(nodes: Iterable[ast.expr | None]) -> bool:
    """Whether the nodes are at least two names of APIs, and nothing else."""
    values = [node.value if isinstance(node, ast.Constant) else None for node in nodes]
    return len(values) > 1 and all(isinstance(value, str) and value in API_NAMES for value in values)


def _is_dialect(node: ast.expr) -> bool:
    """Whether an expression is the name of an API: `dialect`, or `endpoint.name`."""
    if isinstance(node, ast.Attribute) and node.attr == "name":
        return _last_name(node.value) == "endpoint"
    return _last_name(node) == "dialect"


def _last_name(node: ast.expr) -> str | None:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return None


def check_upstream_types(modules: Iterable[Module]) -> Iterator[Problem]:
    """Reports comparisons with the type of an upstream."""
    for module in modules:
        if not any(module.path.is_relative_to(home) for home in _TYPE_HOMES):
            yield from (
                Problem(module.path, line, f"`{text}` compares the type of an upstream. Make it a fact of its profile.")
                for line, text in find_type_choices(module.tree)
            )


def find_type_choices(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yields the line and the text of each comparison with the type of an upstream."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare | ast.MatchValue):
            continue
        text = ast.unparse(node)
        # `openai` is also the name of the tool parser that leaves calls to the upstream.
        if "parser" in text or "native" in text:
            continue
        values = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
        if values & PROVIDER_DEFAULTS.keys():
            yield node.lineno, text


if __name__ == "__main__":
    main()
