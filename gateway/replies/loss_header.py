"""`x-gateway-loss`: what a request lost on its way, for its client to read."""

import re
from collections.abc import Iterable, Sequence

from translation.parsers.text_calls import TOOL_WARNINGS
from translation.representation.events import Event, Noted
from translation.representation.json_types import Json
from translation.representation.loss import Loss

LOSS_HEADER = "x-gateway-loss"

UNREPORTED_FACT = "unreported"
"""The fact that is noted of a reply without what was asked for: the client's parameter."""

_MAX_CHARS = 2000
"""Proxies refuse replies whose headers are long."""

_MAX_NAME_CHARS = 64
"""The longest that a tool's name may be."""

_UNPRINTABLE = re.compile(r"[^\x20-\x7e]|,")
"""What a header cannot hold, or would end the entry; names of unknown parameters are the client's own."""


def render_loss_header(losses: Sequence[Loss]) -> dict[str, str]:
    """Comma-separated `param=what`, each once; the ones there is no room for are counted at the end."""
    if not losses:
        return {}
    entries = list(dict.fromkeys(_UNPRINTABLE.sub("?", str(loss)) for loss in losses))
    rendered: list[str] = []
    room = _MAX_CHARS
    for entry in entries:
        room -= len(entry) + 2
        if room < 0:
            rendered.append(f"...={len(entries) - len(rendered)} more")
            break
        rendered.append(entry)
    return stored_loss_header(", ".join(rendered))


def facts_in(batch: Sequence[Event]) -> list[Json]:
    """What a batch notes of the reply itself."""
    return [event.facts for event in batch if type(event) is Noted and event.facts]


def warnings_in(facts: Iterable[Json]) -> list[Json]:
    """What they tell of the model's calls that have a warning."""
    return [warning for told in facts for warning in told.get(TOOL_WARNINGS, ())]


def unreported_in(facts: Iterable[Json]) -> str | None:
    """The parameter that they say the reply has nothing for."""
    return next((told[UNREPORTED_FACT] for told in facts if UNREPORTED_FACT in told), None)


def warnings_of(reply: Json) -> list[Json]:
    """The same of a whole reply, in which a relayed one may have anything under that name."""
    value = reply.get(TOOL_WARNINGS)
    listed = value if isinstance(value, list) else []
    return [each for each in listed if isinstance(each, dict) and isinstance(each.get("name"), str)]


def warning_losses(warnings: Iterable[Json]) -> list[Loss]:
    """The model's calls that have a warning: they do not fit their tool, or were one too many and are left out. By name
    only: headers end up in logs, and why quotes the call."""
    names = [each["name"][:_MAX_NAME_CHARS] for each in warnings]
    return [Loss("tool_calls", f"{name or 'one'} has a warning") for name in names]


def stored_loss_header(losses: str | None) -> dict[str, str]:
    """The header of a reply that was made before; none where nothing was lost."""
    return {LOSS_HEADER: losses} if losses else {}
