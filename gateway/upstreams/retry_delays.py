"""Reads from the headers of an upstream's error when the request may be sent again, and writes the same for clients."""

import math
import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

_MAX_CHARS: Final = 64
"""Longer values are not read."""

_SECONDS: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_DURATION: Final = re.compile(
    r"(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m(?!s))?(?:([0-9]{1,6}(?:\.[0-9]{1,9})?)s)?(?:([0-9]{1,9}(?:\.[0-9]{1,9})?)ms)?"
)
_SECONDS_OF_UNITS: Final = (3600.0, 60.0, 1.0, 0.001)

_RESETS: Final = ("x-ratelimit-reset-requests", "x-ratelimit-reset-tokens")


def read_retry_delay(headers: Mapping[str, str], now: float) -> float | None:
    """Returns the seconds until the request may be sent again; None if the headers do not say it.

    `now` is the time since the epoch. A date in the past is 0.
    """
    if (milliseconds := _read_number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    if value is None or len(value) > _MAX_CHARS:
        return None
    if (seconds := _read_number(value)) is not None:
        return seconds
    try:
        date = parsedate_to_datetime(value)
        # One of the three forms names no zone. It means GMT (RFC 9110, section 5.6.7).
        return max(0.0, (date if date.tzinfo is not None else date.replace(tzinfo=UTC)).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def read_limit_reset(headers: Mapping[str, str]) -> float | None:
    """Returns the seconds until the last of OpenAI's limits of a 429 is reset; None if the headers do not say it."""
    delays = [delay for name in _RESETS if (delay := _read_duration(headers.get(name))) is not None]
    return max(delays, default=None)


def forbids_retry(headers: Mapping[str, str]) -> bool:
    """Whether the upstream says that the request must not be sent again."""
    return headers.get("x-should-retry", "").strip().lower() == "false"


def write_retry_headers(delay_s: float, *, in_milliseconds: bool = False) -> dict[str, str]:
    """Returns the headers that tell a client when to try again: in whole seconds, at least one.

    `in_milliseconds` adds the exact delay, for clients of upstreams that gave it.
    """
    headers = {"retry-after": str(max(1, math.ceil(delay_s)))}
    return {**headers, "retry-after-ms": str(math.ceil(delay_s * 1000))} if in_milliseconds else headers


def _read_number(value: str | None) -> float | None:
    if value is None or _SECONDS.fullmatch(value := value.strip()) is None:
        return None
    return float(value)


def _read_duration(value: str | None) -> float | None:
    """Returns the seconds of a duration such as `6m0s` or `250ms`."""
    if not value or len(value) > _MAX_CHARS or (match := _DURATION.fullmatch(value.strip())) is None:
        return None
    parts = match.groups()
    if not any(parts):
        return None
    return sum(float(part or 0) * seconds for part, seconds in zip(parts, _SECONDS_OF_UNITS, strict=True))
