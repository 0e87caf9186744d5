"""The failures of one turn: chooses the one that the client gets, and when the client should try again."""

import time
from collections.abc import Mapping

from gateway.upstreams.outcomes import Outcome, find_outcome
from gateway.upstreams.retry_delays import read_limit_reset, read_retry_delay, write_retry_headers
from providers.errors import UpstreamOverloaded, UpstreamRateLimited, UpstreamRejected


class TurnFailures:
    """The failures of the attempts of one turn."""

    waited_s = 0.0
    """The seconds that the turn has waited before it asked an upstream again."""
    was_reset = False
    """Whether the one further attempt that is free after a reset was already taken."""

    def __init__(self) -> None:
        self.outcomes: dict[int, tuple[Outcome, float | None]] = {}
        """By index of a candidate that was tried: its last outcome, and when it may be asked again."""
        self._reported: Exception | None = None
        self._delays: list[tuple[float, bool]] = []
        """The delays that upstreams named, in seconds, and whether they were named in milliseconds."""

    def add(self, error: Exception, outcome: Outcome | None) -> float | None:
        """Adds the failure of an attempt. Returns the seconds after which its upstream may be asked again, if known.

        The client gets the last failure. But a failure that only says that this upstream cannot be used never replaces
        one of another kind.
        """
        if self._reported is None or outcome is None or not outcome.yields or _yields(self._reported):
            self._reported = error
        delay = None if outcome is None else read_delay(error, outcome)
        if delay is not None:
            self._delays.append(delay)
        return None if delay is None else delay[0]

    def choose(self, error: Exception) -> Exception:
        """Returns the failure that the client is shown, if `error` is the last one."""
        failure = self._reported or error
        if isinstance(failure, UpstreamRateLimited):
            _name_delay(failure, min(self._delays, default=None))
        elif isinstance(failure, UpstreamOverloaded):
            own = read_retry_delay(failure.headers, time.time())
            _name_delay(failure, (1.0, False) if own is None else (own, "retry-after-ms" in failure.headers))
        return failure


def _yields(failure: Exception) -> bool:
    outcome = find_outcome(failure)
    return outcome is not None and outcome.yields


def read_delay(error: Exception, outcome: Outcome) -> tuple[float, bool] | None:
    """Returns the seconds after which the upstream may be asked again, if it named them, and whether it did so in
    milliseconds."""
    headers = getattr(error, "headers", None)
    if not isinstance(headers, Mapping):
        return None
    delay = read_retry_delay(headers, time.time())
    if delay is None and outcome.result == "rate_limited" and isinstance(error, UpstreamRejected):
        names = {name.decode("latin-1"): value.decode("latin-1") for name, value in error.raw_headers.items()}
        delay = read_limit_reset(names)
    return None if delay is None else (delay, "retry-after-ms" in headers)


def _name_delay(failure: UpstreamRejected, delay: tuple[float, bool] | None) -> None:
    """Sets the headers by which the client learns when to try again."""
    if delay is None:
        return
    for name in ("retry-after", "retry-after-ms"):
        failure.headers.pop(name, None)
    failure.headers |= write_retry_headers(delay[0], in_milliseconds=delay[1])
