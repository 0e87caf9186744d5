"""One turn of a name with several upstreams: its attempts, one after the other, and which failure the client gets.

What follows a failure is chosen in `gateway/upstreams/repetition.py`.

The caller makes the attempts: for a planned request, a round of hosted tools, or a relayed request.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from dataplane.read_waiter import TIMER_STEP_S
from gateway.config.routing_settings import TurnRouting
from gateway.upstreams.affinity import AffinityKey, ResponseMakers, choose_by_key
from gateway.upstreams.balance import choose_candidate, choose_equal
from gateway.upstreams.candidates import Candidate, TurnCandidates, order_by_ejection, select_available
from gateway.upstreams.health import EjectionReason, ParkingReason
from gateway.upstreams.outcomes import Outcome, ResultName, find_outcome
from gateway.upstreams.registry import Sharing
from gateway.upstreams.repetition import RepetitionChoice
from gateway.upstreams.retry_delays import forbids_retry, write_retry_headers
from gateway.upstreams.turn_failures import TurnFailures
from gateway.upstreams.waiting_turns import PlaceLost
from providers.errors import UpstreamOverloaded, UpstreamRateLimited, UpstreamRejected, UpstreamTimeout

_QUOTA_S: Final = 60.0
"""Seconds for which an upstream without quota is parked."""

_RNG: Final = random.Random()
"""All turns share one, because creating one for each turn would take longer than all its choices."""

_BY_LOAD: Final = frozenset({"least_busy", "prefix"})
"""The balances that choose turns without a key by the load of upstreams."""

_FAILURE_WEIGHTS: Final = {"failure": 1.0, "half": 0.5}


class TriedUpstream(NamedTuple):
    """One attempt that has ended."""

    upstream: str
    result: ResultName
    seconds: float

    def describe(self) -> dict[str, object]:
        """Returns the entry of the log line."""
        return {"upstream": self.upstream, "result": self.result, "ms": round(self.seconds * 1000, 1)}


class SharedAttempt:
    """One attempt in progress. It holds a slot of its provider until it ends."""

    __slots__ = ("began_at", "candidate", "first_content_at")

    def __init__(self, candidate: Candidate, began_at: float) -> None:
        self.candidate = candidate
        self.began_at = began_at
        self.first_content_at: float | None = None


class SharedTurn:
    """One turn. `begin` chooses the upstream of each attempt, and one of the other methods ends it.

    Attributes that most turns never set have their defaults on the class, because that makes it cheaper to create a
    turn.
    """

    queue_s = 0.0
    has_empty_budget = False
    """Whether the turn ended because its name had no repetitions left."""
    limit = ""
    """The configuration key of the limit that refused the turn; empty if none did."""
    report_result: Callable[[ResultName], None] | None = None
    """Is called with the result of each attempt, as soon as it has ended."""
    attempt: SharedAttempt | None = None
    """The attempt in progress."""
    _proposed: tuple[Candidate, int] | None = None
    """The candidate that the turn was planned for, and its attempts in progress at that time."""
    _began_at: float | None = None
    _next: Candidate | None = None
    """The candidate of the next attempt, which was chosen when the last one failed."""

    def __init__(
        self,
        sharing: Sharing,
        candidates: TurnCandidates,
        key: AffinityKey | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
        preferred: str | None = None,
        judges: bool = True,
    ) -> None:
        """`preferred` is the upstream of the round before, which is chosen if it is available. Without `judges` the
        outcomes do not change the health of upstreams: an upstream that cannot count tokens may still answer
        requests."""
        self.attempt_count = 0
        self.tried: list[TriedUpstream] = []
        self.key = key
        self._sharing = sharing
        self._candidates = candidates
        self._clock = clock
        self._rng = rng or _RNG
        self._preferred = preferred
        self._judges = judges and sharing.repeats
        self._failures: Final = TurnFailures()

    @property
    def candidates(self) -> Sequence[Candidate]:
        """The upstreams that may serve the turn."""
        return self._candidates.all

    @property
    def upstream(self) -> str | None:
        """The upstream that was asked last; None if none was."""
        if self.attempt is not None:
            return self.attempt.candidate.upstream
        return self.tried[-1].upstream if self.tried else None

    @property
    def routing(self) -> TurnRouting:
        """The settings of the name."""
        return self._sharing.routing

    def describe(self) -> dict[str, object]:
        """Returns the fields of the log line: the attempts, the upstreams that were tried, the key, and the wait."""
        if self.attempt_count == 1 and self.key is None and not (self.queue_s or self.has_empty_budget):
            return {}  # most turns
        fields: dict[str, object] = {}
        if self.attempt_count != 1:  # the first attempt is in the line already
            fields = {"attempts": self.attempt_count}
            if self.upstream is not None:
                fields["provider"] = self.upstream
        if len(self.tried) > 1:
            fields["tried"] = [tried.describe() for tried in self.tried]
        if self.key is not None:
            fields["affinity"] = self.key.kind
        if self.queue_s:
            fields["queue_ms"] = round(self.queue_s * 1000, 1)
        if self.has_empty_budget:
            fields["retry_budget"] = "empty"
        if self.limit:
            fields["limit"] = self.limit
        return fields

    @property
    def repeats(self) -> bool:
        """Whether there may be further attempts."""
        return self._sharing.repeats

    @property
    def makers(self) -> ResponseMakers:
        """Which upstreams of the name store which responses."""
        return self._sharing.state.makers

    @property
    def leaves_filtered(self) -> bool:
        """Whether the next upstream is asked if a content filter ends a reply before it has content."""
        return self._sharing.repeats and "content_filter" in self._sharing.routing.fallback_on

    @property
    def deadline(self) -> float | None:
        """When the turn has to end, if it has to."""
        total_s = self._sharing.routing.total_s
        return None if total_s is None or self._began_at is None else self._began_at + total_s

    def follow(self) -> "SharedTurn":
        """Returns the turn of the next round of a reply, which prefers the upstream of this one."""
        following = SharedTurn(
            self._sharing, self._candidates, self.key, clock=self._clock, rng=self._rng, preferred=self.upstream
        )
        following.report_result = self.report_result
        return following

    def keep_only(self, indexes: Collection[int]) -> None:
        """Leaves only these candidates."""
        self._candidates = self._candidates.select(indexes)

    def exclude(self, index: int) -> None:
        """Removes a candidate that cannot serve the turn."""
        self._candidates = self._candidates.select([each.index for each in self.candidates if each.index != index])

    def propose(self) -> Candidate | None:
        """Returns the candidate that would be asked now; None if none is left.

        The turn is planned for it. It holds no slot, and `begin` may choose another one.
        """
        now = self._clock()
        proposed = self._choose_quickly(now)
        if proposed is not None:
            self._proposed = (proposed, proposed.load.in_flight)
            return proposed
        available = select_available(self.candidates, now)
        chosen = self._choose(available, now) if available else None
        proposed = chosen or min(self.candidates, key=lambda each: (each.tier, each.index), default=None)
        self._proposed = None if proposed is None else (proposed, proposed.load.in_flight)
        return proposed

    async def begin(self) -> Candidate:
        """Begins the next attempt: chooses its upstream, takes a slot, and counts it.

        Raises UpstreamRateLimited if all upstreams are parked, and UpstreamOverloaded if all remain full.
        """
        now = self._clock()
        if self._began_at is None:
            self._began_at = now
            self._sharing.state.budget.add_turn(now)
        candidate = self._confirm_proposed(now) if not self.attempt_count and self._next is None else None
        if candidate is not None:
            candidate.load.begin_attempt()
        else:
            candidate = await self._find_candidate()
            now = self._clock()
        self.attempt = attempt = SharedAttempt(candidate, now)
        if candidate.health.ejected_until is not None:
            candidate.health.begin_attempt(attempt, now)
        self.attempt_count += 1
        return candidate

    async def _find_candidate(self) -> Candidate:
        """Returns the upstream of the next attempt, with a slot taken, if it is not the one that was proposed."""
        candidate, self._next = self._next or self._find_untried(), None
        if candidate is None:
            return await self._find_first()
        candidate.load.offer_slots()  # no turn takes a slot for which another one waits
        if candidate.load.is_full:
            return await self._take_full(candidate)
        candidate.load.begin_attempt()
        return candidate

    def cancel(self) -> None:
        """Takes back an attempt for which nothing was sent."""
        if (attempt := self._end()) is not None:
            _free_slot(attempt)
            self.attempt_count -= 1

    def observe_content(self) -> None:
        """Records that the first content of the attempt has arrived, which also makes a trial a success."""
        attempt = self.attempt
        if attempt is not None and attempt.first_content_at is None:
            attempt.first_content_at = now = self._clock()
            attempt.candidate.content_times.add(now - attempt.began_at, now)
            if attempt.candidate.health.is_ejected:
                attempt.candidate.health.record_success(attempt, now)
                attempt.candidate.load.offer_slots()  # turns wait for its other slots until its trial has succeeded

    def succeed(self) -> None:
        """Ends the attempt as a success: its reply is complete."""
        now = self._clock()
        if (attempt := self._end("ok", now)) is not None:
            try:
                if self._judges:
                    attempt.candidate.health.record_success(attempt, now)
            finally:
                _free_slot(attempt)

    def leave(self) -> None:
        """Ends the attempt because its client has left. That says nothing about the upstream."""
        if (attempt := self._end("client_gone", self._clock())) is not None:
            _free_slot(attempt)

    def cut(self) -> None:
        """Ends the attempt as a failure after content was delivered, so that it cannot be repeated."""
        now = self._clock()
        if (attempt := self._end("cut", now)) is not None:
            try:
                if not self._is_over(now):
                    attempt.candidate.health.record_failure(attempt, 1.0, now, may_eject=self._candidates.may_eject)
            finally:
                _free_slot(attempt)

    def fail(self, error: Exception, *, judges: bool = True) -> Outcome | None:
        """Ends the attempt in a failure of which nothing was delivered.

        The failure may change the upstream's health. It does not without `judges`, and once the time of the turn is
        over.
        """
        outcome = find_outcome(error)
        now = self._clock()
        attempt = self._end("client_gone" if outcome is None else outcome.result, now)
        if attempt is None:
            return None
        try:
            if outcome is not None:
                delay = self._failures.add(error, outcome)
                self._failures.outcomes[attempt.candidate.index] = (outcome, None if delay is None else now + delay)
                if self._judges and judges and not self._is_over(now):
                    self._judge(attempt, outcome, delay, now)
        finally:
            _free_slot(attempt)
        return outcome

    def _judge(self, attempt: SharedAttempt, outcome: Outcome, delay: float | None, now: float) -> None:
        """Records what the outcome of an attempt says of its upstream, which named this delay."""
        health = attempt.candidate.health
        if outcome.health == "ejection":
            if self._candidates.may_eject:
                cause: EjectionReason = "unauthorized" if outcome.result == "unauthorized" else "not_found"
                health.eject(cause, now, longest=True)
        elif (weight := _FAILURE_WEIGHTS.get(outcome.health)) is not None:
            health.record_failure(attempt, weight, now, may_eject=self._candidates.may_eject)
        elif outcome.result == "rate_limited":
            is_quota = outcome.same == "never"
            health.record_success(attempt, now)
            reason: ParkingReason = "insufficient_quota" if is_quota else "rate_limit_exceeded"
            health.park(reason, _QUOTA_S if is_quota else delay, now)
        elif outcome.proves_alive:
            health.record_success(attempt, now)

    async def move_on(
        self,
        error: Exception,
        larger_than: Callable[[Candidate, Candidate], bool] | None = None,
        *,
        judges: bool = True,
    ) -> bool:
        """Ends the attempt in a failure, and returns whether another attempt begins, after a wait that is due.

        `larger_than` compares the context windows of two candidates. `judges` is that of `fail`.
        """
        failed = self.attempt.candidate if self.attempt is not None else None
        outcome = self.fail(error, judges=judges)
        if outcome is None or failed is None:
            return False
        if not self._sharing.repeats or self.attempt_count >= self._sharing.routing.attempts:
            return False
        if isinstance(error, UpstreamRejected) and forbids_retry(error.headers):
            return False
        now = self._clock()
        choice = RepetitionChoice(
            self._sharing, self.candidates, self._failures, self.attempt_count, rng=self._rng, now=now
        )
        chosen, wait_s = choice.choose_upstream(outcome, failed, larger_than)
        if chosen is None or self._is_over(now, wait_s):
            return False
        if not choice.take_from_budget(outcome, chosen):
            self.has_empty_budget = True
            self._sharing.state.counts.empty_budgets += 1
            return False
        if wait_s:
            self._failures.waited_s += wait_s
            await asyncio.sleep(wait_s)
        self._sharing.state.counts.repetitions["same" if chosen.index in self._failures.outcomes else "next"] += 1
        self._next = chosen
        return True

    def find_failure(self, error: Exception) -> Exception:
        """Returns the failure that the client is shown, when no further attempt begins after `error`."""
        return self._failures.choose(error) if self._sharing.repeats else error

    @asynccontextmanager
    async def bound_attempt(self) -> AsyncGenerator[None, None]:
        """Ends what the block does when the time of the turn is over. Raises UpstreamTimeout then."""
        try:
            async with asyncio.timeout_at(self.deadline):
                yield
        except TimeoutError:
            raise self.build_timeout() from None

    def build_timeout(self) -> UpstreamTimeout:
        """Returns the failure of an attempt that took too long, or of a turn whose time is over."""
        if self._is_over(self._clock()):
            return UpstreamTimeout(f"the turn took longer than {self._sharing.routing.total_s:g} s")
        return UpstreamTimeout("the upstream sent no content in time")

    async def bound_reads(self, reads: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yields what an upstream sends. Raises UpstreamTimeout when the time of the turn is over."""
        while True:
            if self._is_over(self._clock()):  # also if its client is slow, and no read has to be waited for
                raise self.build_timeout()
            async with self.bound_attempt():
                if (read := await anext(reads, None)) is None:
                    return
            yield read

    async def _find_first(self) -> Candidate:
        """Returns the upstream of the first attempt, with a slot taken. Waits while all are full.

        Turns that wait come first: they are offered all free slots before the turn chooses one that is left. If every
        upstream is ejected or parked, a new turn asks an ejected one that has a slot left, but not the one on trial for
        which others wait. If there is none, it fails at once while no turns of the name wait, and waits behind them
        otherwise. A turn that has waited is not sent to an ejected upstream: all that wait would fail there one by one.
        """
        routing, waiting = self._sharing.routing, self._sharing.state.waiting
        queued_at: float | None = None
        while True:
            now = self._clock()
            for each in self.candidates:
                each.load.offer_slots()  # no turn takes a slot for which another one waits
            chosen = self._confirm_proposed(now)
            if chosen is None and (available := select_available(self.candidates, now)):
                chosen = self._choose(available, now)
            if chosen is not None:
                chosen.load.begin_attempt()
                return chosen
            states = {each.find_state(now) for each in self.candidates}
            if "full" not in states:
                for ejected in order_by_ejection(self.candidates, now) if queued_at is None else ():
                    if not waiting or ejected.find_state(now) == "ejected":
                        ejected.load.begin_attempt()
                        return ejected
                if states <= {"parked"} or (queued_at is None and not waiting):
                    raise self._build_refusal(now, has_parked="parked" in states)
            began_at = now if queued_at is None else queued_at
            left_s = began_at + routing.queue_s - now
            if left_s <= 0:
                raise self._refuse_by("routing.queue_s")
            if self.deadline is not None and (left_s := min(left_s, self.deadline - now)) <= 0:
                raise self.build_timeout()
            if queued_at is None and not waiting.make_room(routing.queue_length):
                raise self._refuse_by("routing.queue_length")
            queued_at = began_at
            try:
                granted = await waiting.wait_for_slot(self.candidates, left_s)
            except PlaceLost:
                raise self._refuse_by("routing.queue_length") from None
            finally:
                self.queue_s = self._clock() - queued_at
            if granted is not None:
                self._sharing.state.counts.add_wait(self.queue_s)
                return granted

    def _find_untried(self) -> Candidate | None:
        """Returns the upstream of a further attempt when the one that was chosen cannot serve the turn; None for a
        first attempt. Raises the failure of the turn if no other is left."""
        if not self.attempt_count:
            return None
        now = self._clock()
        untried = [each for each in self.candidates if each.index not in self._failures.outcomes]
        if not (available := select_available(untried, now)):
            raise self._failures.choose(_build_overload())
        return self._choose(available, now)

    async def _take_full(self, candidate: Candidate) -> Candidate:
        """Returns the upstream of a further attempt, with a slot taken, after waiting for one."""
        left_s, began_at = max(0.0, self._sharing.routing.queue_s - self.queue_s), self._clock()
        if self.deadline is not None:
            left_s = max(0.0, min(left_s, self.deadline - began_at))
        try:
            granted = await self._sharing.state.waiting.wait_for_slot([candidate], left_s)
        except PlaceLost:
            raise self._failures.choose(self._refuse_by("routing.queue_length")) from None
        finally:
            waited_s = self._clock() - began_at
            self.queue_s += waited_s
            self._sharing.state.counts.add_wait(waited_s)
        if granted is None:
            raise self._failures.choose(_build_overload())
        return granted

    def _confirm_proposed(self, now: float) -> Candidate | None:
        """Returns the proposed candidate if it is still available, and no busier than when it was proposed: many turns
        may have been accepted since. The proposal is used up by this call."""
        (proposal, self._proposed) = self._proposed, None
        if proposal is None:
            return None
        candidate, in_flight = proposal
        is_current = candidate.load.in_flight <= in_flight and candidate in self.candidates
        is_available = candidate.is_surely_available(now) or candidate.find_state(now) == "available"
        if not is_current or not is_available or candidate.load.offer_slots():  # turns that wait come first
            return None
        return candidate

    def _choose_quickly(self, now: float) -> Candidate | None:
        """Returns the choice for the most frequent kind of turn: the less busy of two healthy upstreams. Returns None
        for all others, which `_choose` serves."""
        equals = self._candidates.equals
        if not equals or self.key is not None or self._preferred is not None:
            return None
        return choose_equal(equals, self._rng, now) if self._sharing.balance in _BY_LOAD else None

    def _choose(self, available: Sequence[Candidate], now: float) -> Candidate:
        if self._preferred is not None:
            for each in available:
                if each.upstream == self._preferred:
                    return each
        if self.key is not None:
            return choose_by_key(self.key, available)
        balance = self._sharing.balance
        return choose_candidate(available, "least_busy" if balance == "prefix" else balance, self._rng, now)

    def _is_over(self, now: float, wait_s: float = 0.0) -> bool:
        """Whether the time of the turn is over, or will be after a wait."""
        return self.deadline is not None and now + wait_s + TIMER_STEP_S >= self.deadline

    def _build_refusal(self, now: float, *, has_parked: bool) -> UpstreamRejected:
        """Returns the failure of a turn for which no upstream can be asked."""
        parked = [each for each in self.candidates if each.find_state(now) == "parked"]
        if not has_parked or not parked:
            return _build_overload()
        first = min(parked, key=lambda each: each.health.find_end(now) or now)
        reason = first.health.parking_reason
        return UpstreamRateLimited(
            "every upstream of the model has reached its rate limit: try again later",
            status=429,
            code=reason,
            headers=write_retry_headers((first.health.find_end(now) or now) - now),
        )

    def _refuse_by(self, limit: str) -> UpstreamOverloaded:
        """Returns the failure of a turn for which no upstream becomes free, and records the key of the limit."""
        self.limit = limit
        return _build_overload()

    def _end(self, result: ResultName | None = None, now: float = 0.0) -> SharedAttempt | None:
        """Ends the attempt, once, and returns it: `_free_slot` has to follow, as soon as the attempt is judged. Without
        a result the attempt is not counted."""
        attempt, self.attempt = self.attempt, None
        if attempt is None:
            return None
        if result is not None:
            seconds, upstream = now - attempt.began_at, attempt.candidate.upstream
            self.tried.append(TriedUpstream(upstream, result, seconds))
            self._sharing.state.counts.add_attempt(upstream, result, seconds)
            if self.report_result is not None:
                self.report_result(result)
        return attempt


def _free_slot(attempt: SharedAttempt) -> None:
    """Gives the slot of an attempt that has ended to a turn that waits. What the attempt says about its upstream has to
    be recorded before: a turn must not get a slot because of the failure that makes it useless."""
    attempt.candidate.health.end_attempt(attempt)
    attempt.candidate.load.end_attempt()


def _build_overload() -> UpstreamOverloaded:
    return UpstreamOverloaded(
        "every upstream of the model is busy: try again later", status=503, headers={"retry-after": "1"}
    )
