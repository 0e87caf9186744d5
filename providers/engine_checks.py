"""Checks an embedded engine's configuration before the engine starts. Each provider type has its own check module,
which is imported only if such a provider is configured."""

from collections.abc import Callable, Sequence
from typing import Final

from providers.config import ProviderConfig, ProviderType
from providers.engines.base import EngineConfigProblem


def _check_llamacpp(config: ProviderConfig) -> Sequence[EngineConfigProblem]:
    from providers.llamacpp.check import check_llamacpp_config

    return check_llamacpp_config(config)


_DEMO_NOT_INSTALLED: Final = 'the demo model is not installed: pip install "responses-gateway[demo]"'


def _check_demo(_config: ProviderConfig) -> Sequence[EngineConfigProblem]:
    return [] if is_demo_available() else [EngineConfigProblem(("type",), _DEMO_NOT_INSTALLED)]


def _check_vllm_inprocess(config: ProviderConfig) -> Sequence[EngineConfigProblem]:
    from providers.vllm_inprocess.check import check_vllm_config

    return check_vllm_config(config)


def _check_harmony(_config: ProviderConfig) -> Sequence[EngineConfigProblem]:
    from providers.harmony.encoding import is_openai_harmony_installed

    message = 'openai-harmony is not installed: pip install "responses-gateway[harmony]"'
    return [] if is_openai_harmony_installed() else [EngineConfigProblem(("type",), message)]


_CHECKS: dict[ProviderType, Callable[[ProviderConfig], Sequence[EngineConfigProblem]]] = {
    "demo": _check_demo,
    "harmony": _check_harmony,
    "llamacpp": _check_llamacpp,
    "vllm_inprocess": _check_vllm_inprocess,
}


def check_engine_config(config: ProviderConfig) -> Sequence[EngineConfigProblem]:
    """Returns all problems in the engine configuration of one provider. Types without a check have none."""
    check = _CHECKS.get(config.type)
    return check(config) if check is not None else ()


def accepts_tool_parser(provider_type: str, parser: str) -> bool:
    """Whether providers of this type may use a tool parser of this name that is not one of the gateway's."""
    return provider_type == "vllm_inprocess" and parser.startswith("vllm:")


def find_tool_parser_problem(provider_type: str, parser: str) -> str | None:
    """Returns what is wrong with a model's tool parser if it is one of vLLM's (`vllm:NAME`), else None."""
    if not parser.startswith("vllm:"):
        return None
    if not accepts_tool_parser(provider_type, parser):
        return f"{parser} is only for providers of type vllm_inprocess"
    from providers.vllm_inprocess.check import list_installed_tool_parsers

    known, name = list_installed_tool_parsers(), parser.removeprefix("vllm:")
    if not known or name in known:
        return None
    return f"the installed vLLM has no tool parser {name!r}; it has {', '.join(sorted(known))}"


def is_demo_available() -> bool:
    """Whether the demo model and llama.cpp are installed. The library is not imported."""
    from providers.demo.files import is_model_installed

    return is_model_installed()


def explain_absent_model(name: str) -> str | None:
    """Returns why no model has this name, if it is that of the demo model, and what to install. Else None."""
    return _DEMO_NOT_INSTALLED if name == "demo" and not is_demo_available() else None
