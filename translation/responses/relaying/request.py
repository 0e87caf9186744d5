"""The few things a Responses body needs changed before a Responses upstream gets it as it is."""

from collections.abc import Sequence

from translation.hygiene.outputs import truncate_outputs
from translation.hygiene.past_calls import is_self_contained, with_unique_call_ids_lenient
from translation.hygiene.schema_shims import apply_schema_shims
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import LoweredRequest
from translation.responses.lower import OPTIONAL_ID_TYPES

_GATEWAY_PARAMS = ("thinking", "extensions")
"""Parameters of the gateway, which say nothing where a body is relayed."""

_OMIT_IF_EMPTY = ("tools", "include")


def relay_body(body: Json, profile: Profile, *, model: str) -> LoweredRequest:
    """`body` with the upstream's model name, and without empty `tools` and `include`; each call under an id of its own
    where all of them can be seen; outputs of calls, ids and tools as the profile wants them. The body given is not
    changed."""
    relayed = {name: value for name, value in body.items() if name not in _GATEWAY_PARAMS}
    for name in _OMIT_IF_EMPTY:
        if not relayed.get(name):
            relayed.pop(name, None)
    relayed["model"] = model
    losses: list[Loss] = []
    if isinstance(given := relayed.get("input"), list):
        if is_self_contained(body):
            given = with_unique_call_ids_lenient(given)
        items = truncate_outputs(given, profile.max_tool_output_bytes, losses)
        relayed["input"] = _without_ids(items) if profile.replay_ids == "drop" else items
    if "tools" in relayed:
        relayed["tools"] = apply_schema_shims(relayed["tools"], profile.schema_shims, losses)
        if relayed.get("parallel_tool_calls") is None and profile.parallel_tool_calls is not None:
            relayed["parallel_tool_calls"] = profile.parallel_tool_calls
    return LoweredRequest(relayed, losses)


def _without_ids(items: Sequence[Item]) -> list[Item]:
    return [
        {key: said for key, said in item.items() if key != "id"}
        if item.get("type", "message") in OPTIONAL_ID_TYPES
        else item
        for item in items
    ]
