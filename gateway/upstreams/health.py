"""The health of an upstream, which decides whether it gets turns: it is available, parked after a rate limit, or
ejected after failures."""

import random
from collections import Counter, deque
from typing import Final, Literal, NamedTuple, TypeAlias

import structlog

from gateway.config.routing_settings import RoutingSettings
from gateway.upstreams.load import ContentTimes, ProviderLoad

_log = structlog.get_logger(__name__)

HealthState: TypeAlias = Literal["available", "parked", "ejected", "trial"]

EjectionReason: TypeAlias = Literal["failures", "unauthorized", "not_found"]

Worth: TypeAlias = Literal["none", "little", "much"]

ParkingReason: TypeAlias = Literal["rate_limit_exceeded", "insufficient_quota"]

_WINDOW_PARTS: Final = 10
"""The window of results consists of so many parts, each of which expires as a whole."""

_JITTER: Final = 0.1
"""Each ejection is longer or shorter by up to this share, so that upstreams do not all come back at once."""


class UpstreamName(NamedTuple):
    """Identifies the state of an upstream: by the provider, and the provider's name of the model."""

    provider: str
    model: str


class _WindowPart:
    __slots__ = ("began", "failures", "results")

    def __init__(self, began: float) -> None:
        self.began = began
        self.results = 0
        self.failures = 0.0


class UpstreamHealth:
    """The health of one model of one provider, in one process. Times are those of a monotonic clock.

    The provider's load is told of changes that concern the turns that wait for its slots.
    """

    def __init__(self, name: UpstreamName, settings: RoutingSettings, rng: random.Random, load: ProviderLoad) -> None:
        self.name = name
        self._load = load
        self.content_times = ContentTimes()
        """How long it takes until its first content."""
        self.ejections = 0
        """Ejections since the process began."""
        self.ejection_reasons: Counter[EjectionReason] = Counter()
        """The same, by reason."""
        self._last_reason: EjectionReason | None = None
        self.parking_reason: ParkingReason = "rate_limit_exceeded"
        self._settings = settings
        self._rng = rng
        self.parked_until = float("-inf")
        self.ejected_until: float | None = None
        """When the ejection ends. It stays until a trial has succeeded; None for an upstream that is well."""
        self._ejections_in_a_row = 0
        self._trial: object = None
        """The attempt that is the trial; None if no trial is in progress."""
        self._failures_in_a_row = 0.0
        self._window: deque[_WindowPart] = deque()

    def use_settings(self, settings: RoutingSettings) -> None:
        """Applies the settings of a new configuration. What was recorded remains."""
        self._settings = settings

    def find_state(self, now: float) -> HealthState:
        """Returns the state. After an ejection it is available, until a trial is in progress."""
        if now < self.parked_until:
            return "parked"
        if self.ejected_until is None:
            return "available"
        if now < self.ejected_until:
            return "ejected"
        return "available" if self._trial is None else "trial"

    @property
    def is_ejected(self) -> bool:
        """Whether it is ejected, or on trial."""
        return self.ejected_until is not None

    def find_end(self, now: float) -> float | None:
        """Returns when the present state ends, if that is known."""
        if now < self.parked_until:
            return self.parked_until
        return self.ejected_until if self.ejected_until is not None and now < self.ejected_until else None

    def find_worth(self, now: float) -> Worth:
        """Returns what would be lost if the health were forgotten.

        `little`: that of a name which the upstream does not know, or of an upstream that has failed less often than
        ejects it. Both are found out again, and any client can cause them by a name that it makes up.
        """
        if self.find_state(now) == "available":
            return "little" if self._failures_in_a_row else "none"
        return "little" if self._last_reason == "not_found" and now >= self.parked_until else "much"

    def begin_attempt(self, attempt: object, now: float) -> None:
        """Makes an attempt the trial if an ejection is over and no trial is in progress."""
        if self.ejected_until is not None and now >= self.ejected_until and self._trial is None:
            self._trial = attempt
            self._load.note_change()

    def record_success(self, attempt: object, now: float) -> None:
        """Records a success. A successful trial ends the ejection."""
        if self.ejected_until is None:
            self._failures_in_a_row = 0.0
            self._record_result(now, 0.0)
        elif attempt is self._trial:
            self._restore()

    def record_failure(self, attempt: object, weight: float, now: float, *, may_eject: bool) -> None:
        """Records a failure of this weight, which may eject the upstream. A failed trial ejects it again.

        Without `may_eject` it is only counted.
        """
        if self.ejected_until is not None:
            if attempt is self._trial:
                self.eject("failures", now)
            return  # a request that began earlier says nothing about now
        self._failures_in_a_row += weight
        self._record_result(now, weight)
        if may_eject and self._has_failed_too_often(now):
            self.eject("failures", now)

    def end_attempt(self, attempt: object) -> None:
        """Ends an attempt without a result: if it was the trial, another one may begin."""
        if self._trial is not None and attempt is self._trial:
            self._trial = None
            self._load.note_change()

    def eject(self, reason: EjectionReason, now: float, *, longest: bool = False) -> None:
        """Ejects the upstream. Each ejection in a row lasts twice as long as the one before, up to the longest time,
        which `longest` chooses at once."""
        settings = self._settings
        self._ejections_in_a_row += 1
        self.ejections += 1
        self.ejection_reasons[reason] += 1
        self._last_reason = reason
        seconds = settings.eject_max_s
        if not longest:
            seconds = min(settings.eject_s * 2.0 ** min(self._ejections_in_a_row - 1, 64), settings.eject_max_s)
            seconds *= 1 + self._rng.uniform(-_JITTER, _JITTER)
        is_new = self.ejected_until is None
        self.ejected_until = now + seconds
        self._trial = None
        self._failures_in_a_row = 0.0
        self._window.clear()
        self._load.note_change()
        if is_new:
            provider, model = self.name
            _log.warning("upstream_ejected", upstream=provider, model=model, reason=reason, seconds=round(seconds, 1))

    def end_ejection(self, now: float) -> None:
        """Lets a trial begin now, because the upstream says that it is well."""
        if self.ejected_until is not None and now < self.ejected_until:
            self.ejected_until = now
            self._load.note_change()

    def park(self, reason: ParkingReason, seconds: float | None, now: float) -> None:
        """Gives the upstream no turns for a time that it named, or else for the time of the configuration."""
        self.parking_reason = reason
        seconds = self._settings.park_s if seconds is None else min(seconds, self._settings.park_max_s)
        self.parked_until = max(self.parked_until, now + seconds)
        self._load.note_change()

    def _restore(self) -> None:
        self.ejected_until = None
        self._trial = None
        self._ejections_in_a_row = 0
        self._failures_in_a_row = 0.0
        self._window.clear()
        self._load.note_change()
        _log.info("upstream_restored", upstream=self.name.provider, model=self.name.model)

    def _record_result(self, now: float, weight: float) -> None:
        window = self._window
        part = window[-1] if window else None
        if part is None or now - part.began >= self._settings.eject_window_s / _WINDOW_PARTS:
            part = _WindowPart(now)
            window.append(part)
            self._expire_results(now)
        part.results += 1
        part.failures += weight

    def _expire_results(self, now: float) -> None:
        while self._window and now - self._window[0].began > self._settings.eject_window_s:
            self._window.popleft()

    def _has_failed_too_often(self, now: float) -> bool:
        settings = self._settings
        if self._failures_in_a_row >= settings.eject_failures:
            return True
        self._expire_results(now)
        results = sum(part.results for part in self._window)
        failures = sum(part.failures for part in self._window)
        return results >= settings.eject_samples and failures >= settings.eject_share * results
