"""A problem in the configuration of an embedded engine, as provider checks report it."""

from typing import NamedTuple


class EngineConfigProblem(NamedTuple):
    """One problem. `path` leads from the provider to the key: `("engine", "n_ctx")`."""

    path: tuple[str, ...]
    message: str
    """What is wrong, or what to write instead."""
