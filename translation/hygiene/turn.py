"""Normalizes a turn for any dialect: the last step before it is lowered."""

from dataclasses import replace

from translation.hygiene.outputs import truncate_outputs
from translation.hygiene.past_calls import with_unique_call_ids
from translation.hygiene.schema_shims import apply_schema_shims
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn


def normalize_turn(turn: Turn, profile: Profile, losses: list[Loss]) -> Turn:
    """Returns the turn with unique ids of past calls, and with outputs, tools and `parallel_tool_calls` per the
    profile.

    Returns `turn` itself if nothing changes. Raises InvalidRequest, which names the id, for a call without an output or
    an output without a call.
    """
    items = truncate_outputs(with_unique_call_ids(turn.items, turn.call_pairs), profile.max_tool_output_bytes, losses)
    tools = apply_schema_shims(turn.tools, profile.schema_shims, losses)
    parallel = turn.parallel_tool_calls
    if parallel is None and tools:
        parallel = profile.parallel_tool_calls
    if items is turn.items and tools is turn.tools and parallel is turn.parallel_tool_calls:
        return turn
    return replace(turn, items=items, tools=tools, parallel_tool_calls=parallel)
