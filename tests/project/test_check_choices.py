"""scripts/check_choices.py: what it reports."""

import ast
import tomllib
from pathlib import Path

import pytest

from scripts import check_choices
from scripts.check_choices import API_NAMES, ROOT, check_api_names, find_api_choices, find_type_choices
from scripts.check_names import Module


def module_of(source: str, path: str = "gateway/planning/plan.py") -> Module:
    return Module(Path(path), source, ast.parse(source))


def test_the_script_finds_no_choice_in_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    check_choices.main()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "source",
    [
        'endpoint.name == "messages"',
        '"chat" != dialect',
        'dialect in ("gemini", "ollama")',
        'match dialect:\n    case "agui":\n        pass',
        'names = {"chat": "messages", "responses": "input"}',
        'names = frozenset({"messages", "gemini"})',
        "names[endpoint.name]",
        "names[relay.dialect]",
        "names.get(dialect)",
    ],
)
def test_a_choice_by_the_name_of_an_api_is_found(source: str) -> None:
    assert list(find_api_choices(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        '"messages" in body',
        '{**body, "messages": messages}',
        '"responses" in route.capabilities.dialects',
        'capabilities.counting == "messages"',
        "relay.dialect in route.capabilities.dialects",
        'item["type"] == "message"',
    ],
)
def test_keys_of_bodies_and_facts_about_upstreams_are_no_choices(source: str) -> None:
    assert list(find_api_choices(ast.parse(source))) == []


def test_an_api_may_know_its_own_name() -> None:
    homes = ("gateway/dialects/messages/endpoint.py", "translation/messages/client/lift.py")
    modules = [module_of('dialect == "messages"', path) for path in homes]
    assert list(check_api_names(modules)) == []


def test_an_api_may_not_know_the_name_of_another() -> None:
    homes = ("gateway/dialects/ollama/endpoint.py", "gateway/dialects/table.py", "translation/chat/client/lift.py")
    for path in homes:
        assert list(check_api_names([module_of('dialect == "messages"', path)]))


def test_other_code_may_not_know_it() -> None:
    modules = [module_of('a = dialect == "chat"\nb = dialect == "responses"')]
    assert [problem.line for problem in check_api_names(modules)] == [1, 2]


def test_the_contract_of_independence_names_every_api() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (independent,) = (contract["modules"] for contract in contracts if contract["type"] == "independence")
    assert sorted(independent) == sorted(f"gateway.dialects.{name}" for name in API_NAMES)


@pytest.mark.parametrize(
    "source", ['kind == "gemini"', 'kind in ("vllm", "x")', 'match kind:\n    case "ollama":\n        pass']
)
def test_a_comparison_with_the_type_of_an_upstream_is_found(source: str) -> None:
    assert list(find_type_choices(ast.parse(source)))
