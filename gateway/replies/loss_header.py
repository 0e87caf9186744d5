"""The header `x-gateway-loss`, which reports the parts of a request that the upstream cannot honour.

It is stored with a reply, and so is the upstream that answered.
"""

import re
from collections.abc import Iterable, Sequence

from gateway.http.headers import UPSTREAM_HEADER
from gateway.logs import bind_losses
from gateway.replies.observers import ReplyEnd
from gateway.state.values import StoredHeaders
from translation.encoding.visible_output import UNREPORTED_FACT
from translation.parsers.text_calls import TOOL_WARNINGS
from translation.representation.events import CUT_OFF_REASONS, Event, Failed, Finished, Noted, Usage
from translation.representation.json_types import Json
from translation.representation.loss import Loss

LOSS_HEADER = "x-gateway-loss"

_MAX_CHARS = 2000
"""The longest value of the header. Proxies refuse replies whose headers are long."""

_MAX_NAME_CHARS = 64
"""The longest name of a tool in the APIs."""

_UNPRINTABLE = re.compile(r"[^\x20-\x7e]|,")
"""Characters that a header cannot contain, and the comma, which ends an entry. Names of unknown parameters come from
the client and may have any characters."""


def report_losses(losses: Sequence[Loss]) -> dict[str, str]:
    """Returns the header: comma-separated `param=effect` without duplicates; empty if nothing was lost.

    If the header is too long, the last entry has the number of omitted losses. The log line of the request gets the
    names of what was lost.
    """
    if not losses:
        return {}
    bind_losses(losses)
    # A request may have a hundred thousand losses, of which the header has room for a few dozen.
    entries = dict.fromkeys(losses)
    rendered: dict[str, None] = {}
    room = _MAX_CHARS
    for count, loss in enumerate(entries):
        entry = _UNPRINTABLE.sub("?", str(loss))
        if entry in rendered:
            continue
        room -= len(entry) + 2
        if room < 0:
            rendered[f"...={len(entries) - count} more"] = None
            break
        rendered[entry] = None
    return {LOSS_HEADER: ", ".join(rendered)}


def collect_facts(batch: Sequence[Event]) -> list[Json]:
    """Returns the facts about the reply that a batch contains."""
    kinds = list(map(type, batch))
    if Noted not in kinds:  # most batches
        return []
    return [event.facts for event in batch[kinds.index(Noted) :] if type(event) is Noted and event.facts]


def collect_warnings(facts: Iterable[Json]) -> list[Json]:
    """Returns the warnings about the model's tool calls among the facts of a batch."""
    return [warning for fact in facts for warning in fact.get(TOOL_WARNINGS, ())]


def collect_unreported(facts: Iterable[Json]) -> list[str]:
    """Returns the client's parameters that the reply has no result for, by the facts of a batch."""
    return [fact[UNREPORTED_FACT] for fact in facts if UNREPORTED_FACT in fact]


def read_end(batch: Sequence[Event], facts: Sequence[Json], failed: Failed | None) -> ReplyEnd:
    """Returns what is known of a reply that has ended, by its last batch and the facts about it.

    It was cut off at a limit, by a filter, or for an unknown reason.
    """
    usage: Usage | None = None
    is_cut_off, reason = False, None
    if batch:
        end = batch[-1]
        if isinstance(end, Finished):
            usage, reason = end.usage, end.reason
            is_cut_off = end.reason in CUT_OFF_REASONS or end.is_unknown
        elif isinstance(end, Failed):
            usage = end.usage
    if not facts:
        return ReplyEnd(usage, (), (), failed, is_cut_off, reason)
    return ReplyEnd(usage, collect_warnings(facts), collect_unreported(facts), failed, is_cut_off, reason)


def read_reply_warnings(reply: Json) -> list[Json]:
    """Returns the warnings about tool calls in a JSON reply, without malformed ones, which a relayed reply may have."""
    listed = reply.get(TOOL_WARNINGS)
    if not isinstance(listed, list):
        return []
    return [warning for warning in listed if isinstance(warning, dict) and isinstance(warning.get("name"), str)]


def build_warning_losses(warnings: Iterable[Json]) -> list[Loss]:
    """Returns the losses for tool calls with a warning: they do not fit their tool's schema, or were one too many.

    The losses have only the tool's name. The reason quotes the call, and headers end up in logs.
    """
    names = [warning["name"][:_MAX_NAME_CHARS] for warning in warnings]
    return [Loss("tool_calls", f"{name or 'one'} has a warning") for name in names]


def render_stored_headers(stored: StoredHeaders, *, names_upstream: bool) -> dict[str, str]:
    """Returns the headers that are stored with a reply, as far as they have values."""
    headers = {LOSS_HEADER: stored.losses} if stored.losses else {}
    if names_upstream and stored.upstream is not None:
        headers[UPSTREAM_HEADER] = stored.upstream
    return headers
