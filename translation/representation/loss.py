"""Losses: parts of a request that an upstream cannot honour and that are reported, not refused."""

from typing import NamedTuple

from translation.representation.json_types import Json


class Loss(NamedTuple):
    """One drop or conversion that does not change the meaning of the answer.

    `param` is the dotted path in the client's request. `effect` is one word or a short phrase: `dropped`, `merged`, ….
    """

    param: str
    effect: str

    def __str__(self) -> str:
        return f"{self.param}={self.effect}"


class UnknownKey(NamedTuple):
    """A key of a request that the schema of its API does not have. It is a loss unless the upstream is sent it.

    `holder` is the object that has it, and `path` its place in the request.
    """

    path: str
    key: str
    holder: Json
