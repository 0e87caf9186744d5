"""What a request lost on its way to an upstream that cannot say it."""

from typing import NamedTuple


class Loss(NamedTuple):
    """One drop or conversion that does not change what the answer means.

    `param` is the dotted path in the client's request, `what` one word or short phrase: `dropped`, `merged`, ….
    """

    param: str
    effect: str

    def __str__(self) -> str:
        return f"{self.param}={self.effect}"
