"""A vllm_inprocess provider's arguments: checked by name before it starts, by value when it does."""

import importlib.util
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from gateway.config import settings as settings_of
from gateway.config.yaml_file import ConfigError
from providers.config import ProviderConfig
from providers.errors import EngineUnavailable
from providers.vllm_inprocess.arguments import build_engine_args
from tests.unit.support.vllm_fakes import library

ARG_UTILS = '''
"""Not importable: whoever reads names must not run this."""
raise SystemExit("this was imported")

class EngineArgs:
    model: str = "x"
    max_model_len: int = 1
    tensor_parallel_size: int = 1
    distributed_executor_backend: str | None = None
    served_model_name: str | None = None
    _hidden: int = 0

class AsyncEngineArgs(EngineArgs):
    enable_log_requests: bool = False
'''


TOOL_PARSERS = """
raise SystemExit("this was imported")
_TOOL_PARSERS_TO_REGISTER = {"qwen3_coder": ("file", "Class"), "glm45": ("file", "Class")}
"""


@pytest.fixture
def vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A vLLM that is installed, as far as its arguments go."""
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "arg_utils.py").write_text(ARG_UTILS)
    (tmp_path / "tool_parsers").mkdir()
    (tmp_path / "tool_parsers" / "__init__.py").write_text(TOOL_PARSERS)
    install(monkeypatch, tmp_path)
    return tmp_path


def install(monkeypatch: pytest.MonkeyPatch, folder: Path | None) -> None:
    found = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> ModuleSpec | None:
        if name != "vllm":
            return found(name, package)
        if folder is None:
            return None
        spec = ModuleSpec("vllm", None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
        return spec

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)


def problems(engine: dict[str, Any], **model: Any) -> list[str]:
    config = {
        "providers": {"local": {"type": "vllm_inprocess", "model": "some/model", "engine": engine}},
        "models": {"tiny": {"provider": "local", **model}},
    }
    try:
        settings_of.parse_settings(config, environ={})
    except ConfigError as error:
        return [f"{'.'.join(map(str, problem.path))}: {problem.message}" for problem in error.problems]
    return []


@pytest.mark.usefixtures("vllm")
def test_arguments_of_the_installed_vllm_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    # What this machine lacks for them is another check: test_scale.py.
    monkeypatch.setattr("providers.vllm_inprocess.check.find_scale_problems", lambda engine: ())
    assert problems({"tensor_parallel_size": 2, "distributed_executor_backend": "ray"}) == []


@pytest.mark.usefixtures("vllm")
def test_an_unknown_argument_is_refused_by_name_with_the_nearest_one() -> None:
    assert problems({"max_modl_len": 5, "zzz": 1, "_hidden": 1}) == [
        "providers.local.engine.max_modl_len: the installed vLLM has no engine argument 'max_modl_len'; "
        "did you mean max_model_len?",
        "providers.local.engine.zzz: the installed vLLM has no engine argument 'zzz'",
        "providers.local.engine._hidden: the installed vLLM has no engine argument '_hidden'",
    ]


@pytest.mark.usefixtures("vllm")
def test_reserved_arguments_are_refused_with_their_own_key() -> None:
    (problem,) = problems({"served_model_name": "x"})
    assert problem.startswith("providers.local.engine.served_model_name: the names clients use are the keys")


@pytest.mark.usefixtures("vllm")
def test_the_name_of_a_tool_parser_is_one_that_vllm_has() -> None:
    assert problems({}, tool_parser="vllm:glm45") == []
    assert problems({}, tool_parser="vllm:glm") == [
        "models.tiny.tool_parser: the installed vLLM has no tool parser 'glm'; it has glm45, qwen3_coder"
    ]


def test_unknown_parser_locations_of_vllm_are_checked_by_the_first_request(vllm: Path) -> None:
    (vllm / "tool_parsers" / "__init__.py").write_text("PARSERS = {}")
    assert problems({}, tool_parser="vllm:anything") == []


def test_unknown_argument_locations_of_vllm_are_checked_at_its_start(vllm: Path) -> None:
    (vllm / "engine" / "arg_utils.py").unlink()
    assert problems({"anything": 1}) == []


def test_without_vllm_the_extra_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, None)
    assert problems({}) == ['providers.local.type: vLLM is not installed: pip install "responses-gateway[vllm]"']


def test_nothing_of_vllm_is_imported_by_a_server_without_it() -> None:
    program = (
        "import sys; from gateway.process.app import create_app; from gateway.http.guard import DrainState;"
        "from gateway.config import settings;"
        "create_app(settings.parse_settings({'store': {'url': None}}, environ={}), DrainState());"
        "print({'vllm', 'torch', 'transformers', 'providers.vllm_inprocess', 'done'} & {*sys.modules, 'done'})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout == "{'done'}\n"


def args_of(**engine: Any) -> Any:
    config = ProviderConfig.model_validate({"type": "vllm_inprocess", "model": "some/model", "engine": engine})
    return build_engine_args(library(), "local", config)


def test_arguments_reach_vllm_as_they_are_written() -> None:
    given = {"tensor_parallel_size": 2, "distributed_executor_backend": "ray", "quantization": "fp8"}
    made = args_of(**given)
    assert made.model == "some/model"
    assert {name: getattr(made, name) for name in given} == given


def test_values_of_another_kind_are_refused_with_their_keys() -> None:
    with pytest.raises(EngineUnavailable) as refused:
        args_of(max_model_len="many", tensor_parallel_size="two", max_modl_len=1)
    assert "providers.local.engine.max_model_len: Input should be a valid integer" in refused.value.message
    assert "providers.local.engine.tensor_parallel_size: Input should be a valid integer" in refused.value.message
    assert "did you mean max_model_len?" in refused.value.message


def test_text_that_is_a_number_is_one() -> None:
    assert args_of(max_model_len="2048").max_model_len == 2048


def test_nothing_is_left_to_vllm_as_nothing() -> None:
    assert args_of(max_model_len=None).max_model_len is None


def test_refusals_of_vllm_have_its_message() -> None:
    class Picky:
        model: str = ""

        def __init__(self, **_: Any) -> None:
            raise ValueError("not on this machine")

    Picky.__dataclass_fields__ = {}  # type: ignore[attr-defined]
    config = ProviderConfig.model_validate({"type": "vllm_inprocess", "model": "some/model"})
    with pytest.raises(EngineUnavailable, match="not on this machine"):
        build_engine_args(library(AsyncEngineArgs=Picky), "local", config)


def test_thinking_budgets_are_passed_to_vllm_unless_its_parser_knows_the_tags() -> None:
    assert args_of().reasoning_config == {"reasoning_start_str": "<think>", "reasoning_end_str": "</think>"}
    assert args_of(reasoning_parser="qwen3").reasoning_config is None
    assert args_of(reasoning_config={"reasoning_end_str": "x"}).reasoning_config == {"reasoning_end_str": "x"}
