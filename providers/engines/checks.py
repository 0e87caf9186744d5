"""How a provider's check reports what is wrong with an embedded engine's configuration."""

from typing import NamedTuple


class EngineConfigProblem(NamedTuple):
    """One thing to change. `path` leads to it from the provider: `("engine", "n_ctx")`."""

    path: tuple[str, ...]
    message: str
    """What to write instead."""
