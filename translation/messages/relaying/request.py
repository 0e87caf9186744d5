"""Adapts a client's request to an upstream with the same API. Fields that need no change are forwarded as they are."""

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, Final

from translation.hygiene.volatile_lines import move_volatile_lines_of_system, remove_lines_of_system
from translation.messages.client.messages_history import CALL_CARRIER_PREFIX, SIGNATURE_CARRIER_PREFIX
from translation.messages.relaying.history import repair_history
from translation.messages.upstream.families import is_claude
from translation.representation.json_types import Json, mapping_or_empty
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import LoweredRequest

_CARRIER_KEYS: Final = {
    "thinking": "signature",
    "redacted_thinking": "data",
    "web_search_tool_result": "content",
    "text": "citations",
}
"""Type of a block -> the key of what only its own server can read, or of entries with such a key."""

_ENTRY_KEYS: Final = {"web_search_tool_result": "encrypted_content", "text": "encrypted_index"}
"""Type of a block -> the key of its entries. Searches of upstreams with other APIs have nothing there."""

_NAMES: Final = {"web_search_tool_result": "searches", "text": "citations"}
"""Type of a block -> its name in a loss. The others are thinking."""


def relay_body(body: Json, profile: Profile, *, model: str) -> LoweredRequest:
    """Returns the upstream request body, for the upstream's `model` name. Nulls are left out.

    Lines of the profile are removed or moved. Anthropic's own profile has none. For its models the history is made
    valid instead.
    """
    relayed = {**{key: value for key, value in body.items() if value is not None}, "model": model}
    losses: list[Loss] = []
    if _repairs_history(profile, model):
        relayed["messages"] = repair_history(relayed["messages"], losses)
    if profile.system_messages == "merge_all":
        _merge_system_messages(relayed, losses)
    if profile.removed_lines and relayed.get("system"):
        relayed["system"] = remove_lines_of_system(relayed["system"], profile.removed_lines)
        if not relayed["system"]:
            del relayed["system"]
    if profile.volatile_lines:
        system = relayed.pop("system", "")
        system, relayed["messages"] = move_volatile_lines_of_system(system, relayed["messages"], profile.volatile_lines)
        if system:
            relayed["system"] = system
    return LoweredRequest(relayed, losses)


def _repairs_history(profile: Profile, model: str) -> bool:
    """Whether the history is made valid for Anthropic's API. By its name, a Claude is behind that API at every host."""
    return profile.relayed_history == "repair" or (profile.relayed_history == "by_model" and is_claude(model))


def _merge_system_messages(relayed: Json, losses: list[Loss]) -> None:
    """Moves the system messages among the messages to `system`, in place."""
    rest = [message for message in relayed["messages"] if message["role"] != "system"]
    if len(rest) == len(relayed["messages"]):
        return
    blocks: list[Json] = []
    for content in (
        relayed.get("system"),
        *(message.get("content") for message in relayed["messages"] if message["role"] == "system"),
    ):
        blocks += [{"type": "text", "text": content}] if isinstance(content, str) else content or ()
    relayed["system"], relayed["messages"] = blocks, rest
    losses.append(Loss("messages", "system messages merged"))


def remove_sealed_blocks(
    messages: Sequence[Json], is_sealed: Callable[[str], bool], losses: list[Loss]
) -> Sequence[Json]:
    """Returns messages without sealed blocks that the gateway created from other models' thinking, searches and
    citations.

    The API would refuse these blocks. A block that holds only signatures of calls has nothing of use to another model,
    so that its removal is no loss. Returns the same object if there are none. `is_sealed` tells whether the gateway has
    sealed a text.
    """
    removed: list[str] = []
    stripped = [_without_sealed(message, is_sealed, removed) for message in messages]
    if all(one is other for one, other in zip(stripped, messages, strict=True)):
        return messages
    losses += [Loss("messages", f"{name} of another model dropped") for name in dict.fromkeys(removed)]
    return [one for one, other in zip(stripped, messages, strict=True) if one is other or one["content"]]


def _without_sealed(message: Json, is_sealed: Callable[[str], bool], removed: list[str]) -> Json:
    """Returns a message without such blocks. The names of the removed blocks that are losses are appended to
    `removed`."""
    content = message.get("content")
    if message["role"] != "assistant" or not isinstance(content, list):
        return message
    flags = [_is_sealed_block(block, is_sealed) for block in content]
    if not any(flags):
        return message
    sealed = list(compress(content, flags))
    removed += [_NAMES.get(block["type"], "thinking") for block in sealed if not _has_only_signatures(block)]
    searches = {block["tool_use_id"] for block in sealed if block["type"] == "web_search_tool_result"}
    blocks: list[Json] = []
    for block, has_seal in zip(content, flags, strict=True):
        if block["type"] == "text" and has_seal:
            blocks.append({key: value for key, value in block.items() if key != "citations"})
        elif not has_seal and not (block["type"] == "server_tool_use" and block["id"] in searches):
            blocks.append(block)
    return {**message, "content": blocks}


def _has_only_signatures(block: Json) -> bool:
    return block["type"] == "redacted_thinking" and str(block["data"]).startswith(SIGNATURE_CARRIER_PREFIX)


def _is_sealed_block(block: Json, is_sealed: Callable[[str], bool]) -> bool:
    carrier = block.get(_CARRIER_KEYS.get(block["type"], ""))
    if not carrier:
        return False
    if isinstance(carrier, str):
        return is_sealed(carrier.removeprefix(CALL_CARRIER_PREFIX).removeprefix(SIGNATURE_CARRIER_PREFIX))
    return isinstance(carrier, list) and any(_is_sealed_entry(entry, block["type"], is_sealed) for entry in carrier)


def _is_sealed_entry(entry: Any, kind: str, is_sealed: Callable[[str], bool]) -> bool:
    text = mapping_or_empty(entry).get(_ENTRY_KEYS[kind])
    return isinstance(text, str) and (not text or is_sealed(text))
