"""What can be said against an embedded engine's arguments before it starts. Each type is asked by a module of its own,
which is not imported before one is configured."""

from collections.abc import Callable, Sequence

from providers.config import ProviderConfig, ProviderType
from providers.engines.checks import Complaint


def _llamacpp(config: ProviderConfig) -> Sequence[Complaint]:
    from providers.llamacpp.check import complaints

    return complaints(config)


def _vllm_inprocess(config: ProviderConfig) -> Sequence[Complaint]:
    from providers.vllm_inprocess.check import complaints

    return complaints(config)


def _harmony(_config: ProviderConfig) -> Sequence[Complaint]:
    from providers.harmony.encoding import is_installed

    told = 'openai-harmony is not installed: pip install "responses-gateway[harmony]"'
    return [] if is_installed() else [Complaint(("type",), told)]


_CHECKS: dict[ProviderType, Callable[[ProviderConfig], Sequence[Complaint]]] = {
    "harmony": _harmony,
    "llamacpp": _llamacpp,
    "vllm_inprocess": _vllm_inprocess,
}


def complaints(config: ProviderConfig) -> Sequence[Complaint]:
    """Everything that is wrong with what one provider's engine is to load; nothing for types that load nothing."""
    check = _CHECKS.get(config.type)
    return check(config) if check is not None else ()


def has_parser(kind: str, parser: str) -> bool:
    """Whether providers of this type may have a tool parser of this name that is none of ours."""
    return kind == "vllm_inprocess" and parser.startswith("vllm:")


def parser_complaint(kind: str, parser: str) -> str | None:
    """What is wrong with a model's tool parser where it is one of vLLM's own; `kind` is its provider's type."""
    if not parser.startswith("vllm:"):
        return None
    if not has_parser(kind, parser):
        return f"{parser} is for providers of type vllm_inprocess"
    from providers.vllm_inprocess.check import tool_parsers

    known, name = tool_parsers(), parser.removeprefix("vllm:")
    if not known or name in known:
        return None
    return f"the installed vLLM has no tool parser {name!r}; it has {', '.join(sorted(known))}"


def is_llamacpp_installed() -> bool:
    """Whether the llama.cpp library is installed. Imports nothing of it."""
    from providers.llamacpp.check import is_installed

    return is_installed()
