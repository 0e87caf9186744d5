"""Counts of the turns of one name since the process began: attempts, repetitions, waits. Metrics report them."""

from collections import Counter
from typing import Literal, TypeAlias

from gateway.histograms import Histogram
from gateway.upstreams.outcomes import ResultName

RepetitionKind: TypeAlias = Literal["same", "next"]
"""Whether a further attempt goes to an upstream that was tried, or to another one."""


class AttemptCounts:
    """The attempts at one upstream that had the same result, and how long they took."""

    __slots__ = ("count", "seconds")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = Histogram()


class TurnCounts:
    """The counts of one name."""

    def __init__(self) -> None:
        self.attempts: dict[tuple[str, ResultName], AttemptCounts] = {}
        """By upstream and result."""
        self.repetitions: Counter[RepetitionKind] = Counter()
        self.empty_budgets = 0
        """Turns that ended because their name had no repetitions left."""
        self.waits = Histogram()
        """Seconds that turns waited for a slot."""

    def add_attempt(self, upstream: str, result: ResultName, seconds: float) -> None:
        """Counts an attempt that has ended."""
        key = (upstream, result)
        if (counts := self.attempts.get(key)) is None:
            counts = self.attempts[key] = AttemptCounts()
        counts.count += 1
        counts.seconds.observe(seconds)

    def add_wait(self, seconds: float) -> None:
        """Counts a wait for a slot."""
        if seconds > 0:
            self.waits.observe(seconds)
