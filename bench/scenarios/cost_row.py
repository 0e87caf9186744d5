"""A figure of the store, of the start or of hosted tools, beside the same figure without them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CostRow:
    """One figure on one database.

    `without` is the figure of the same load without the store, if there is such a load. `ratios` divide the
    figure by that without the store, one per round. They are empty if they mean nothing on another machine.
    """

    name: str
    database: str
    unit: str
    without: float | None
    value: float
    target: float | None = None
    ratios: tuple[float, ...] = ()

    @property
    def score(self) -> float:
        """The part of the figure that the store adds. It is compared with the target."""
        return self.value if self.without is None else self.value - self.without

    @property
    def missed(self) -> bool:
        """Whether there is a target and it was not reached."""
        return self.target is not None and self.score > self.target
