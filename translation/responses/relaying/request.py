"""Adapts a client's Responses request body to a Responses upstream. Fields that need no change are forwarded."""

from collections.abc import Sequence
from typing import Final

from translation.hygiene.outputs import truncate_outputs
from translation.hygiene.past_calls import with_unique_call_ids_lenient
from translation.hygiene.schema_shims import apply_schema_shims, shim_format
from translation.lowering.system_items import merge_system_items
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import LoweredRequest
from translation.responses.input_items import find_item_kind
from translation.responses.upstream.lower import OPTIONAL_ID_TYPES, to_replayed_reasoning

_GATEWAY_PARAMS = ("thinking", "extensions")
"""The gateway's own parameters. They are not forwarded."""

_OMIT_IF_EMPTY = ("tools", "include")

_OWN_INCLUDE: Final = "gateway.report"
"""A value of `include` that only the gateway knows."""


_HISTORY_PARAMS: Final = frozenset({"previous_response_id", "conversation", "prompt"})


def adds_items(body: Json) -> bool:
    """Whether a relayed body has a parameter that makes the upstream add stored items to the input."""
    return not _HISTORY_PARAMS.isdisjoint(body) and any(body.get(name) for name in _HISTORY_PARAMS)


def relay_body(body: Json, profile: Profile, *, model: str) -> LoweredRequest:
    """Returns the upstream request body for `profile`, with its losses. `body` itself is not changed.

    What changes: the model's name (`model`), the place of system messages, item ids, tool outputs (truncated to their
    limit), tool schemas, and the default of `parallel_tool_calls`. Past reasoning that has only a summary gets its text
    as content too. Empty `tools` and `include` are left out. Call ids are made unique, if the body holds the whole
    history.
    """
    relayed = {name: value for name, value in body.items() if name not in _GATEWAY_PARAMS}
    if _OWN_INCLUDE in (relayed.get("include") or ()):
        relayed["include"] = [value for value in relayed["include"] if value != _OWN_INCLUDE]
    for name in _OMIT_IF_EMPTY:
        if not relayed.get(name):
            relayed.pop(name, None)
    relayed["model"] = model
    losses: list[Loss] = []
    if isinstance(items := relayed.get("input"), list):
        if profile.system_messages == "merge_all":
            relayed["instructions"], items = merge_system_items(relayed.get("instructions"), items, losses)
            if relayed["instructions"] is None:
                del relayed["instructions"]
        if not adds_items(body):
            items = with_unique_call_ids_lenient(items)
        truncated = truncate_outputs(items, profile.max_tool_output_bytes, losses)
        if profile.replay_reasoning != "none":
            truncated = _with_readable_reasoning(truncated)
        relayed["input"] = _without_ids(truncated) if profile.replay_ids == "drop" else truncated
    text = relayed.get("text")
    if profile.schema_shims and isinstance(text, dict) and isinstance(text.get("format"), dict):
        answer_format = shim_format(text["format"], profile.schema_shims, "text.format.schema", losses)
        relayed["text"] = {**text, "format": answer_format}
    if "tools" in relayed:
        relayed["tools"] = apply_schema_shims(relayed["tools"], profile.schema_shims, losses)
        if relayed.get("parallel_tool_calls") is None and profile.parallel_tool_calls is not None:
            relayed["parallel_tool_calls"] = profile.parallel_tool_calls
    return LoweredRequest(relayed, losses)


def _with_readable_reasoning(items: Sequence[Item]) -> Sequence[Item]:
    """Returns items whose reasoning has the text that upstreams read. The same object if there is no reasoning."""
    if not any(item.get("type") == "reasoning" for item in items):
        return items
    return [
        to_replayed_reasoning(item, index) if item.get("type") == "reasoning" else item
        for index, item in enumerate(items)
    ]


def _without_ids(items: Sequence[Item]) -> list[Item]:
    return [
        {key: value for key, value in item.items() if key != "id"}
        if find_item_kind(item) in OPTIONAL_ID_TYPES
        else item
        for item in items
    ]
