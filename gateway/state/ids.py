"""Which texts can be the id of something that is kept."""

from typing import Final

_MAX_CHARS: Final = 255


def is_valid_id(text: str) -> bool:
    """Whether a row can have this id. Others are unknown without asking: PostgreSQL's text cannot hold NUL, and
    neither database takes half a surrogate pair."""
    return 0 < len(text) <= _MAX_CHARS and "\0" not in text and text.isprintable()
