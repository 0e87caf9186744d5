"""`x-gateway-loss`: what a request lost on its way, for its client to read."""

import re
from collections.abc import Sequence

from translation.loss import Loss

LOSS_HEADER = "x-gateway-loss"

_MAX_CHARS = 2000
"""Proxies refuse replies whose headers are long."""

_UNPRINTABLE = re.compile(r"[^\x20-\x7e]|,")
"""What a header cannot hold, or would end the entry; names of unknown parameters are the client's own."""


def loss_header(losses: Sequence[Loss]) -> dict[str, str]:
    """Comma-separated `param=what`, each once; the ones there is no room for are counted at the end."""
    entries = list(dict.fromkeys(_UNPRINTABLE.sub("?", str(loss)) for loss in losses))
    kept: list[str] = []
    room = _MAX_CHARS
    for entry in entries:
        room -= len(entry) + 2
        if room < 0:
            kept.append(f"...={len(entries) - len(kept)} more")
            break
        kept.append(entry)
    return said_again(", ".join(kept))


def said_again(losses: str | None) -> dict[str, str]:
    """The header of a reply that was made before; none where nothing was lost."""
    return {LOSS_HEADER: losses} if losses else {}
