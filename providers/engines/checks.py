"""What can be said against an embedded engine's arguments before it starts. Each type is asked by a module of its own,
which is not imported before one is configured."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from providers.config import ProviderConfig, ProviderType


class Complaint(NamedTuple):
    """One thing to change. `path` leads to it from the provider: `("engine", "n_ctx")`."""

    path: tuple[str, ...]
    message: str
    """What to write instead."""


def _llamacpp(config: ProviderConfig) -> Sequence[Complaint]:
    from providers.llamacpp.check import complaints

    return complaints(config)


def _vllm_inprocess(config: ProviderConfig) -> Sequence[Complaint]:
    from providers.vllm_inprocess.check import complaints

    return complaints(config)


_CHECKS: dict[ProviderType, Callable[[ProviderConfig], Sequence[Complaint]]] = {
    "llamacpp": _llamacpp,
    "vllm_inprocess": _vllm_inprocess,
}


def complaints(config: ProviderConfig) -> Sequence[Complaint]:
    """Everything that is wrong with what one provider's engine is to load; nothing for types that load nothing."""
    check = _CHECKS.get(config.type)
    return check(config) if check is not None else ()
