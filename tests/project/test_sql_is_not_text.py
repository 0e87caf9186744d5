"""No SQL is built from strings. The linter forbids functions by name; methods that take text are found here."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TAKES_TEXT = {"exec_driver_sql", "text", "literal_column", "prefix_with", "suffix_with", "op", "DDL"}


def test_no_code_passes_text_to_a_database() -> None:
    found = {
        str(file.relative_to(ROOT))
        for folder in ("gateway", "providers", "dataplane", "translation")
        for file in (ROOT / folder).rglob("*.py")
        if "sqlalchemy" in file.read_text() and TAKES_TEXT & set(_called(file))
    }
    assert found == set()


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("from sqlalchemy import text\n\ntext('SELECT 1')\n", "TID251"),
        ("import sqlalchemy as sa\n\nsa.literal_column('now()')\n", "TID251"),
        ("def query(name: str) -> str:\n    return f'SELECT id FROM items WHERE name = {name}'\n", "S608"),
    ],
)
def test_the_lint_refuses_sql_from_strings(code: str, rule: str) -> None:
    ruff = [str(Path(sys.executable).with_name("ruff")), "check", "--output-format", "json", "--stdin-filename"]
    checked = subprocess.run(
        [*ruff, "gateway/state/example.py", "-"], input=code, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert rule in {problem["code"] for problem in json.loads(checked.stdout)}


def _called(file: Path) -> list[str]:
    calls = (node.func for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call))
    return [
        call.attr if isinstance(call, ast.Attribute) else call.id
        for call in calls
        if isinstance(call, ast.Attribute | ast.Name)
    ]
