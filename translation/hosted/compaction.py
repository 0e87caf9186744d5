"""Splits a context with calls of hosted tools for its compaction: into items to summarize and items to retain.

Models read such calls as function calls. Clients get them back as items of the API, so that lists of tools and requests
for approvals stay unchanged in the sealed part of a compaction.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from translation.hygiene.item_groups import split_for_compaction
from translation.representation.json_types import Item


class HostedContextParts(NamedTuple):
    """A context to be compacted. `instructions` are system and developer messages.

    The summary replaces `summarizable`. `retained` follows it, as the model reads it. `sealed` are the retained items
    as items of the API.
    """

    instructions: list[Item]
    summarizable: list[Item]
    retained: list[Item]
    sealed: list[Item]


def split_hosted_context(
    items: Sequence[Item],
    sources: Mapping[str, Sequence[Item]],
    open_ids: Collection[str],
    lists: Iterable[Item],
    *,
    awaits_answer: bool,
) -> HostedContextParts:
    """Splits a context in terms of function calls.

    `sources` has the items of the API for the calls of hosted tools, by their `call_id`. `open_ids` are the ids of the
    calls that may still be approved; they are retained. So are `lists`, the lists of tools. `awaits_answer` is passed
    to `split_for_compaction`.
    """
    instructions, summarizable, retained = split_for_compaction(items, awaits_answer=awaits_answer)
    waiting = [item for item in summarizable if item.get("call_id") in open_ids]
    if waiting:
        summarizable = [item for item in summarizable if item.get("call_id") not in open_ids]
        retained = [*waiting, *retained]
    sealed = [*lists]
    for item in retained:
        source = sources.get(item.get("call_id") or "")
        if source is None:
            sealed.append(item)
        elif item["type"] == "function_call":
            sealed += source
    return HostedContextParts(instructions, summarizable, retained, sealed)
