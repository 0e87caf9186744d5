"""Parameters of files: the purpose, and when a file expires. Forms and JSON bodies have the same rules."""

import re
from typing import Final

from translation.errors import InvalidRequest

PURPOSES: Final = ("assistants", "batch", "evals", "fine-tune", "user_data", "vision")
"""The purposes that a client may upload a file for. OpenAI has other purposes, for files that its service makes
itself."""

EXPIRES_AFTER: Final = "expires_after"
ANCHOR: Final = "created_at"
_MIN_EXPIRY_S: Final = 3600
_MAX_EXPIRY_S: Final = 30 * 86_400
_WHOLE_NUMBER: Final = re.compile(r"[0-9]{1,9}")

_DEFAULT_EXPIRIES_S: Final = {"batch": 30 * 86_400}
"""Purpose -> seconds after which its files expire, unless the client says when."""


def check_purpose(purpose: object) -> str:
    """Returns a purpose. Raises InvalidRequest for one that an uploaded file cannot have."""
    if not isinstance(purpose, str) or purpose not in PURPOSES:
        expected = ", ".join(f"'{known}'" for known in PURPOSES)
        raise InvalidRequest(
            f"Invalid value for 'purpose': '{purpose!s:.80}'. Expected one of {expected}.", param="purpose"
        )
    return purpose


def check_expiry(anchor: object, seconds: object) -> int:
    """Returns the seconds after which a file expires. `seconds` is a number, or its digits.

    Raises InvalidRequest for another anchor than `created_at`, and for seconds out of bounds.
    """
    if anchor != ANCHOR:
        raise InvalidRequest(
            f"Invalid value for 'expires_after': its anchor must be '{ANCHOR}', but got '{anchor!s:.80}'.",
            param=EXPIRES_AFTER,
        )
    if isinstance(seconds, str) and _WHOLE_NUMBER.fullmatch(seconds):
        seconds = int(seconds)
    is_number = isinstance(seconds, int) and not isinstance(seconds, bool)
    if not is_number or not _MIN_EXPIRY_S <= int(str(seconds)) <= _MAX_EXPIRY_S:
        raise InvalidRequest(
            f"Invalid value for 'expires_after': its seconds must be a whole number from {_MIN_EXPIRY_S} to "
            f"{_MAX_EXPIRY_S}, but got '{seconds!s:.80}'.",
            param=EXPIRES_AFTER,
        )
    return int(str(seconds))


def compute_expiry(purpose: str, expiry_s: int | None, created_at: int) -> int | None:
    """Returns when a file expires, in epoch seconds; None for a file that stays."""
    seconds = _DEFAULT_EXPIRIES_S.get(purpose) if expiry_s is None else expiry_s
    return None if seconds is None else created_at + seconds
