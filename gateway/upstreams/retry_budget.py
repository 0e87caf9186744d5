"""Limits the repeated attempts for one name, so that failing upstreams do not get several times the usual load."""

from typing import Final

from gateway.config.routing_settings import RoutingSettings

_MAX_SECONDS: Final = 10.0
"""The budget grows by so many seconds of idle time at most."""

_ONE: Final = 1 - 1e-9
"""The cost of one repetition. It is a little below 1, because a sum of shares in floating-point numbers may not reach 1
exactly."""


class RetryBudget:
    """The budget of one name in one process. Each turn and each second adds to it, each repetition takes one."""

    def __init__(self, settings: RoutingSettings, now: float) -> None:
        self._settings = settings
        self._tokens = self._most_tokens = _MAX_SECONDS * settings.retries_per_s
        self._filled_at = now
        self.last_turn_at = float("-inf")
        """When the last turn began."""

    def use_settings(self, settings: RoutingSettings) -> None:
        """Goes on with the settings of a new configuration."""
        self._settings = settings
        self._most_tokens = _MAX_SECONDS * settings.retries_per_s
        self._tokens = min(self._tokens, self._most_tokens)

    def add_turn(self, now: float) -> None:
        """Adds the share of one turn, which begins now."""
        self.last_turn_at = now
        self._tokens = min(self._most_tokens, self._tokens + self._settings.retry_share)

    def take(self, now: float) -> bool:
        """Takes one repetition. Returns whether there was one."""
        seconds, self._filled_at = now - self._filled_at, now
        self._tokens = min(self._most_tokens, self._tokens + self._settings.retries_per_s * seconds)
        if self._tokens < _ONE:
            return False
        self._tokens -= 1
        return True
