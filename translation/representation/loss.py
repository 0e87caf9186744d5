"""Losses: parts of a request that an upstream cannot honour and that are reported, not refused."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from translation.representation.json_types import Json

FINAL_TEXT: Final = "output.final_text"
"""The name of what a reply lacks if the upstream's final text is another form of the text that it streamed."""

_DIFFERS: Final = "differs from the deltas"
_NOT_REPORTED: Final = "not reported"


class Loss(NamedTuple):
    """One drop or conversion that does not change the meaning of the answer.

    `param` is the dotted path in the client's request. `effect` is one word or a short phrase: `dropped`, `merged`, ….
    """

    param: str
    effect: str

    def __str__(self) -> str:
        return f"{self.param}={self.effect}"


def build_reply_loss(name: str) -> Loss:
    """Returns the loss for something that a reply lacks, by its name: a parameter's result, or output of the model."""
    return Loss(name, _DIFFERS if name == FINAL_TEXT else _NOT_REPORTED)


def render_reply_losses(names: Iterable[str]) -> list[str]:
    """Returns the entries of `x-gateway-loss` for what a reply lacks, for the end of a stream."""
    return [str(build_reply_loss(name)) for name in names]


class UnknownKey(NamedTuple):
    """A key of a request that the schema of its API does not have. It is a loss unless the upstream is sent it.

    `holder` is the object that has it, and `path` its place in the request.
    """

    path: str
    key: str
    holder: Json
