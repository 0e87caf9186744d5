"""Finds the token counts in a relayed reply: in its last bytes, or in those that were read to examine it.

Knows no path: JSON replies and the events of streams report their counts under the same key.
"""

import json
from typing import Any, Final

from translation.chat.usage import read_usage
from translation.decoding.usage import read_count
from translation.representation.events import Usage

_TAIL_BYTES: Final = 4 * 1024
"""How much of the end of a reply is held. Counts are at the end of nearly all replies, and are short."""

_KEY: Final = b'"usage"'

_MAX_PLACES: Final = 16
"""How many places with the key are examined. In a hostile reply there are thousands."""

_DECODER: Final = json.JSONDecoder()


class ReplyUsage:
    """Collects the end of one reply. `head` is its beginning, and every further read is given to `feed`."""

    def __init__(self, head: bytes) -> None:
        self._counts_of_head = _find_counts(head)
        self._tail = head[-_TAIL_BYTES:]

    def feed(self, read: bytes) -> None:
        self._tail = read[-_TAIL_BYTES:] if len(read) >= _TAIL_BYTES else (self._tail + read)[-_TAIL_BYTES:]

    def find(self) -> Usage | None:
        """Returns the last counts of the reply; None if there are none where they are looked for."""
        return read_reply_usage(_find_counts(self._tail) or self._counts_of_head)


def read_reply_usage(reported: object) -> Usage | None:
    """Returns the counts of a reply's `usage`; None if it is no object, or an empty one."""
    if not isinstance(reported, dict) or not reported:
        return None
    usage = read_usage(reported)
    if usage.input is None and usage.output is None:
        # Rerankers count the query and the documents together.
        usage = Usage(input=read_count(reported.get("total_tokens")))
    return usage


def _find_counts(text: bytes) -> dict[str, Any] | None:
    """Returns the last object with the key `usage` in a piece of JSON or of events."""
    end = len(text)
    for _ in range(_MAX_PLACES):
        end = text.rfind(_KEY, 0, end)
        if end < 0:
            return None
        if text[end - 1 : end] == b"\\":
            continue  # the text of an answer, in which quotes are escaped
        start = end + len(_KEY)
        before, _, value = text[start : start + _TAIL_BYTES].partition(b":")
        value = value.lstrip()
        if before.strip() or not value.startswith(b"{"):
            continue
        try:
            counts, _ = _DECODER.raw_decode(value.decode(errors="replace"))
        except (ValueError, RecursionError):
            continue
        if counts:
            return dict(counts)
    return None
