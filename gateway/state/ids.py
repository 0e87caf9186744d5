"""Which texts can be the id of a stored object."""

from typing import Final

_MAX_CHARS: Final = 255


def is_valid_id(text: str) -> bool:
    """Return whether a row can have this id. Any other id is unknown, and no query is sent for it.

    PostgreSQL's text cannot hold NUL, and neither database accepts a lone surrogate.
    """
    return 0 < len(text) <= _MAX_CHARS and "\0" not in text and text.isprintable()
