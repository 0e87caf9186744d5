"""Chooses what follows the failure of an attempt: the upstream of the next attempt, and the wait before it."""

import random
from collections.abc import Callable, Sequence
from typing import Final

from gateway.upstreams.balance import choose_candidate
from gateway.upstreams.candidates import Candidate, order_by_ejection, select_available
from gateway.upstreams.outcomes import Outcome
from gateway.upstreams.registry import Sharing
from gateway.upstreams.turn_failures import TurnFailures

_MIN_BACKOFF_S: Final = 0.025
_MAX_BACKOFF_S: Final = 0.25

_DELAY_JITTER: Final = 0.1
"""A delay that an upstream named is lengthened by up to this share, so that not all turns come back at once."""


class RepetitionChoice:
    """The choice of one turn after its `attempt_count` attempts, at the time `now`."""

    def __init__(
        self,
        sharing: Sharing,
        candidates: Sequence[Candidate],
        failures: TurnFailures,
        attempt_count: int,
        *,
        rng: random.Random,
        now: float,
    ) -> None:
        self._sharing = sharing
        self._candidates = candidates
        self._failures = failures
        self._attempt_count = attempt_count
        self._rng = rng
        self._now = now

    def choose_upstream(
        self,
        outcome: Outcome,
        failed: Candidate,
        larger_than: Callable[[Candidate, Candidate], bool] | None,
    ) -> tuple[Candidate | None, float]:
        """Returns the upstream of the next attempt and the wait before it; None if there is none.

        `outcome` is that of the candidate that `failed`. `larger_than` compares the context windows of two candidates.
        """
        untried = [each for each in self._candidates if each.index not in self._failures.outcomes]
        if outcome.next == "never" or not self._may_ask_next(outcome):
            return None, 0.0
        if outcome.judgement == "context_length_exceeded" and larger_than is not None:
            untried = [each for each in untried if larger_than(each, failed)]
        if available := select_available(untried, self._now):
            balance = self._sharing.balance
            usual = "least_busy" if balance == "prefix" else balance
            return choose_candidate(available, usual, self._rng, self._now), 0.0
        if full := [each for each in untried if each.find_state(self._now) == "full"]:
            return full[0], 0.0
        if ejected := order_by_ejection(untried, self._now):
            return ejected[0], 0.0
        return self._choose_same() if outcome.next != "if_configured" else (None, 0.0)

    def take_from_budget(self, outcome: Outcome, chosen: Candidate) -> bool:
        """Takes a further attempt from the retry budget, unless it is free. Returns whether it may begin."""
        if outcome.is_free:
            return True
        if outcome.is_reset and not self._failures.was_reset and chosen.health.find_state(self._now) != "ejected":
            self._failures.was_reset = True
            return True
        return self._sharing.state.budget.take(self._now)

    def _may_ask_next(self, outcome: Outcome) -> bool:
        routing = self._sharing.routing
        if outcome.next == "if_unsafe":
            return routing.retry_unsafe
        return outcome.judgement is None or outcome.judgement in routing.fallback_on

    def _choose_same(self) -> tuple[Candidate | None, float]:
        """Returns the upstream that may be asked again soonest, and the wait until then."""
        left_s = self._sharing.routing.wait_s - self._failures.waited_s
        best: tuple[Candidate | None, float] = (None, 0.0)
        for each in self._candidates:
            known = self._failures.outcomes.get(each.index)
            if known is None or known[0].same == "never" or each.find_state(self._now) == "ejected":
                continue
            outcome, again_at = known
            if outcome.same == "after_backoff":
                most_s = min(_MIN_BACKOFF_S * 2.0 ** (self._attempt_count - 1), _MAX_BACKOFF_S)
                wait_s = self._rng.uniform(0, most_s)
            elif again_at is None:
                continue
            else:
                wait_s = max(0.0, again_at - self._now) * (1 + self._rng.uniform(0, _DELAY_JITTER))
            if wait_s <= left_s and (best[0] is None or wait_s < best[1]):
                best = (each, wait_s)
        return best
