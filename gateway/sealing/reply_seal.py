"""The reasoning carrier: what an upstream needs back of an item travels with the item, sealed.

A sealed `encrypted_content` names the upstream and the model it came from. They get back what is in it; any other gets
what can be read of the item.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from gateway.sealing.sealer import Sealer, UnsealFailed, is_sealed
from translation.errors import InvalidRequest
from translation.lowering.past_reasoning import is_signature_only
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn
from translation.responses.lower import lower_items

ENCRYPTED_CONTENT: Final = "encrypted_content"
_DETAILS_KEY: Final = "details"
_UPSTREAM_KEYS: Final = (_DETAILS_KEY, ENCRYPTED_CONTENT)
"""What an upstream needs back: in its own dialect's words, or what it has sealed itself."""

_READABLE_KEYS: Final = ("summary", "content")


@dataclass(frozen=True, slots=True)
class ReasoningSeal:
    """What carries reasoning between one owner and one model of one upstream."""

    sealer: Sealer
    owner: str
    provider: str
    model: str
    upstream_seals: bool
    """The upstream speaks Responses, so that `encrypted_content` may be its own, which it checks itself."""

    def check_input(self, input_items: object, history_count: int) -> None:
        """Raises InvalidRequest for the first item of an input, after `earlier` items of history, whose sealed part
        cannot be opened; StoreUnavailable where that cannot be told."""
        for place, item in enumerate(input_items[history_count:] if isinstance(input_items, list) else ()):
            if ENCRYPTED_CONTENT not in item:
                continue
            text = _sealed_text_of(item)
            if text is None or (self.upstream_seals and not is_sealed(text)):
                continue
            try:
                self.sealer.unseal(text, self.owner)
            except UnsealFailed:
                raise InvalidRequest(
                    "The encrypted content of this item cannot be read: it was changed, or comes from another server "
                    "or another user. Send it as it was received, or leave the item out.",
                    param=f"input[{place}].{ENCRYPTED_CONTENT}",
                    code="invalid_encrypted_content",
                ) from None

    def unseal_item(self, item: Item) -> Item:
        """An item as the upstream is told it. Raises StoreUnavailable."""
        text = _sealed_text_of(item)
        if text is None or not is_sealed(text):
            return item
        rest = {name: value for name, value in item.items() if name != ENCRYPTED_CONTENT}
        try:
            payload: Json = orjson.loads(self.sealer.unseal(text, self.owner))
        except UnsealFailed:
            # Of history: its key is gone, and with it what only the upstream could read.
            return rest
        rest |= {name: payload[name] for name in _READABLE_KEYS if name in payload}
        if (payload["provider"], payload["model"]) == (self.provider, self.model):
            rest |= {name: payload[name] for name in _UPSTREAM_KEYS if name in payload}
        elif is_signature_only(payload):
            rest[_DETAILS_KEY] = [{"thought": False}]
        return rest

    def unseal_turn(self, turn: Turn) -> Turn:
        """A turn with its items as the upstream is told them. Raises StoreUnavailable."""
        for item in turn.items:
            if ENCRYPTED_CONTENT in item:
                return replace(turn, items=[self.unseal_item(item) for item in turn.items])
        return turn

    def unseal_relayed_items(self, input_items: Sequence[Item], profile: Profile) -> tuple[list[Item], list[Loss]]:
        """A client's own items for an upstream that is relayed to: as they came, but for reasoning that this
        upstream did not seal, which is said as the profile says, or lost. Raises StoreUnavailable."""
        items: list[Item] = []
        losses: list[Loss] = []
        for place, item in enumerate(input_items):
            unsealed = self.unseal_item(item)
            if unsealed is item or unsealed.get(ENCRYPTED_CONTENT) or unsealed.get("type") != "reasoning":
                items.append(unsealed)
                continue
            replayed_items, lost = lower_items([unsealed], profile)
            items += replayed_items
            losses += [loss._replace(param=f"input[{place}]") for loss in lost]
        return items, losses


class ReplyItemSeal:
    """Items of one reply as the client is told them. The same item is sealed to the same text every time.

    `included`: the client asked for reasoning that it can send back.
    """

    def __init__(self, reasoning_seal: ReasoningSeal, include_reasoning: bool) -> None:
        self._reasoning_seal = reasoning_seal
        self._include_reasoning = include_reasoning
        self._sealed_texts: dict[bytes, str] = {}

    def may_need_seal(self, payload: bytes) -> bool:
        """Whether an event of an upstream that speaks Responses may hold an item for `begun` or `ended`."""
        return b'"encrypted_content"' in payload or (self._include_reasoning and b'"reasoning"' in payload)

    def seal_added_item(self, item: Item) -> Item:
        """An item that is announced: what is sealed is told at its end."""
        if not (_DETAILS_KEY in item or ENCRYPTED_CONTENT in item):
            return item
        is_needed = item.get(_DETAILS_KEY) or _sealed_text_of(item) is not None
        return _without_upstream_keys(item) if is_needed else item

    def seal_done_item(self, item: Item) -> Item:
        """An item that is complete."""
        if not (_DETAILS_KEY in item or ENCRYPTED_CONTENT in item or self._include_reasoning):
            return item
        own = _sealed_text_of(item)
        if own is not None and own in self._sealed_texts.values():
            return item
        held = {
            name: item[name]
            for name in _UPSTREAM_KEYS
            if item.get(name) and (name != ENCRYPTED_CONTENT or own is not None)
        }
        if self._include_reasoning and item.get("type") == "reasoning":
            held |= {name: item[name] for name in _READABLE_KEYS if item.get(name)}
        if not held:
            return item
        stripped = _without_upstream_keys(item)
        text = self._seal_payload(held)
        return stripped if text is None else {**stripped, ENCRYPTED_CONTENT: text}

    def _seal_payload(self, payload: Mapping[str, Any]) -> str | None:
        carrier = self._reasoning_seal
        packed = orjson.dumps({"provider": carrier.provider, "model": carrier.model, **payload})
        if packed not in self._sealed_texts and (text := carrier.sealer.seal(packed, carrier.owner)) is not None:
            self._sealed_texts[packed] = text
        return self._sealed_texts.get(packed)


def _sealed_text_of(item: Json) -> str | None:
    """What is sealed in an item; compaction items have a seal of their own."""
    text = item.get(ENCRYPTED_CONTENT)
    return text if isinstance(text, str) and text and item.get("type") != "compaction" else None


def _without_upstream_keys(item: Item) -> Item:
    return {name: value for name, value in item.items() if name not in _UPSTREAM_KEYS}
