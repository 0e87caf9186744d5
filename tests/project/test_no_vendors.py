"""Only adapters and profiles depend on the type of an upstream."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.config import PROVIDER_DEFAULTS

ROOT = Path(__file__).parents[2]
NATIVE = {
    "anthropic": "translation/messages",
    "gemini": "translation/gemini",
    "ollama": "translation/ollama",
}
"""Names that are also names of dialects -> where they may occur."""

MODULES = sorted(
    path
    for folder in ("gateway", "dataplane", "translation")
    for path in (ROOT / folder).rglob("*.py")
    if not any(path.is_relative_to(ROOT / home) for home in NATIVE.values())
)


def choices_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Returns (line, comparison) of every comparison with the name of a provider type."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare | ast.MatchValue):
            continue
        asked = ast.unparse(node)
        # `openai` is also how a tool parser is called that leaves calls to the upstream.
        if "parser" in asked or "native" in asked:
            continue
        named = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
        if named & PROVIDER_DEFAULTS.keys():
            yield node.lineno, asked


def test_no_module_outside_the_adapters_depends_on_the_upstream_type() -> None:
    choices = {str(module.relative_to(ROOT)): list(choices_in(ast.parse(module.read_text()))) for module in MODULES}
    assert choices
    assert {module: found for module, found in choices.items() if found} == {}


@pytest.mark.parametrize(
    "source", ['kind == "gemini"', 'kind in ("vllm", "x")', 'match kind:\n    case "ollama":\n        pass']
)
def test_a_vendor_if_would_be_found(source: str) -> None:
    assert list(choices_in(ast.parse(source)))
