"""Adapts a client's request to an upstream with the same API. Fields that need no change are forwarded as they are."""

from collections.abc import Callable, Sequence
from typing import Final

from translation.messages.history import CALL_CARRIER_PREFIX
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import LoweredRequest

_CARRIER_KEYS: Final = {"thinking": "signature", "redacted_thinking": "data"}
"""Type of a block -> the key of what only its own server can read."""


def relay_body(body: Json, _profile: Profile, *, model: str) -> LoweredRequest:
    """Returns the upstream request body, for the upstream's `model` name. Nulls are left out."""
    return LoweredRequest({**{key: value for key, value in body.items() if value is not None}, "model": model}, ())


def remove_sealed_blocks(
    messages: Sequence[Json], is_sealed: Callable[[str], bool], losses: list[Loss]
) -> Sequence[Json]:
    """Returns messages without the thinking of other models, which the gateway has sealed, and the API would refuse.

    The same object if there is none. `is_sealed` says whether the gateway has sealed a text.
    """
    kept = [_without_sealed(message, is_sealed) for message in messages]
    if all(one is other for one, other in zip(kept, messages, strict=True)):
        return messages
    losses.append(Loss("messages", "thinking of another model dropped"))
    return [one for one, other in zip(kept, messages, strict=True) if one is other or one["content"]]


def _without_sealed(message: Json, is_sealed: Callable[[str], bool]) -> Json:
    content = message.get("content")
    if message["role"] != "assistant" or not isinstance(content, list):
        return message
    blocks = [block for block in content if not _is_sealed_block(block, is_sealed)]
    return message if len(blocks) == len(content) else {**message, "content": blocks}


def _is_sealed_block(block: Json, is_sealed: Callable[[str], bool]) -> bool:
    carrier = block.get(_CARRIER_KEYS.get(block["type"], ""))
    return isinstance(carrier, str) and is_sealed(carrier.removeprefix(CALL_CARRIER_PREFIX))
