"""Losses: parts of a request that an upstream cannot honour and that are reported, not refused."""

from typing import NamedTuple


class Loss(NamedTuple):
    """One drop or conversion that does not change the meaning of the answer.

    `param` is the dotted path in the client's request. `effect` is one word or a short phrase: `dropped`, `merged`, ….
    """

    param: str
    effect: str

    def __str__(self) -> str:
        return f"{self.param}={self.effect}"
