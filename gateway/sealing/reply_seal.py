"""Seals the parts of items that an upstream needs back into `encrypted_content`, and unseals them in later requests.

A sealed `encrypted_content` contains the provider and the model that it came from. That model gets back all of its
content; any other model gets only the readable text.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from gateway.sealing.sealer import Sealer, UnsealFailed, is_sealed
from translation.errors import InvalidRequest
from translation.hosted.citations.citation_table import is_own_detail
from translation.lowering.reasoning import is_signature_only
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn
from translation.responses.upstream.lower import lower_items

ENCRYPTED_CONTENT: Final = "encrypted_content"
_DETAILS_KEY: Final = "details"
_UPSTREAM_KEYS: Final = (_DETAILS_KEY, ENCRYPTED_CONTENT)
"""Keys of an item that only its upstream can use: details in its own dialect, or content that it encrypted itself."""

_READABLE_KEYS: Final = ("summary", "content")
"""Keys of a reasoning item that any model can use."""


@dataclass(frozen=True, slots=True)
class ReasoningSeal:
    """Seals and unseals reasoning for one owner and one model of one provider."""

    sealer: Sealer
    owner: str
    provider: str
    model: str
    upstream_seals: bool
    """Whether the upstream supports the Responses API. Then `encrypted_content` may be its own, which it checks."""
    realm: frozenset[str] = frozenset()
    """The providers of one account, which can read what each of them sealed; empty if it is only this one."""

    def check_input(self, input_items: object, history_count: int) -> None:
        """Checks that every sealed item of an input can be unsealed. The first `history_count` items are skipped.

        Raises InvalidRequest for the first item that cannot; StoreUnavailable if the key cannot be loaded.
        """
        for index, item in enumerate(input_items[history_count:] if isinstance(input_items, list) else ()):
            if ENCRYPTED_CONTENT not in item:
                continue
            text = _encrypted_content(item)
            if text is None or (self.upstream_seals and not is_sealed(text)):
                continue
            try:
                self.sealer.unseal(text, self.owner)
            except UnsealFailed:
                raise InvalidRequest(
                    "The encrypted content of this item cannot be read: it was changed, or comes from another server "
                    "or another user. Send it as it was received, or leave the item out.",
                    param=f"input[{index}].{ENCRYPTED_CONTENT}",
                    code="invalid_encrypted_content",
                ) from None

    def can_read(self, provider: str, model: str) -> bool:
        """Whether this upstream can use what a model of a provider sealed."""
        return model == self.model and (provider == self.provider or provider in self.realm)

    def find_maker(self, items: Sequence[Item]) -> tuple[str, str] | None:
        """Returns the provider and the model of the newest sealed content that only its upstream can use; None if there
        is none. Readable reasoning binds nobody. Raises StoreUnavailable if the key cannot be loaded."""
        for item in reversed(items):
            text = _encrypted_content(item)
            if text is None or not is_sealed(text):
                continue
            try:
                payload: Json = orjson.loads(self.sealer.unseal(text, self.owner))
            except UnsealFailed:
                continue
            if payload.get(ENCRYPTED_CONTENT) or not all(map(is_own_detail, payload.get(_DETAILS_KEY) or ())):
                return payload["provider"], payload["model"]
        return None

    def unseal_item(self, item: Item) -> Item:
        """Returns an item with its sealed content restored, as far as this upstream can use it.

        An item that is not sealed is returned as the same object. Raises StoreUnavailable if the key cannot be loaded.
        """
        text = _encrypted_content(item)
        if text is None or not is_sealed(text):
            return item
        rest = {name: value for name, value in item.items() if name != ENCRYPTED_CONTENT}
        try:
            payload: Json = orjson.loads(self.sealer.unseal(text, self.owner))
        except UnsealFailed:
            # Only history gets here, since `check_input` refuses other items: its key is gone, so its content is lost.
            return rest
        rest |= {name: payload[name] for name in _READABLE_KEYS if name in payload}
        if self.can_read(payload["provider"], payload["model"]):
            rest |= {name: payload[name] for name in _UPSTREAM_KEYS if name in payload}
        elif is_signature_only(payload):
            rest[_DETAILS_KEY] = [{"thought": False}]
        elif own := [*filter(is_own_detail, payload.get(_DETAILS_KEY) or ())]:
            rest[_DETAILS_KEY] = own
        return rest

    def remove_foreign_content(self, turn: Turn) -> Turn:
        """Returns a turn without encrypted content that was not sealed here, which no upstream of this seal can use.

        Clients of the Messages API send back the signatures of whatever server they talked to before.
        """
        return replace(turn, items=[self._remove_foreign(item) for item in turn.items])

    @staticmethod
    def _remove_foreign(item: Item) -> Item:
        text = _encrypted_content(item)
        if text is None or is_sealed(text):
            return item
        return {name: value for name, value in item.items() if name != ENCRYPTED_CONTENT}

    def unseal_hosted_calls(self, items: Sequence[Item], types: Collection[str]) -> list[Item]:
        """Returns items in which the calls of hosted tools, which have these types, are unsealed.

        Raises StoreUnavailable if the key cannot be loaded.
        """
        return [self.unseal_item(item) if item["type"] in types else item for item in items]

    def unseal_turn(self, turn: Turn) -> Turn:
        """Returns a turn whose items are unsealed. Raises StoreUnavailable if the key cannot be loaded."""
        for item in turn.items:
            if ENCRYPTED_CONTENT in item:
                return replace(turn, items=[self.unseal_item(item) for item in turn.items])
        return turn

    def unseal_relayed_items(self, input_items: Sequence[Item], profile: Profile) -> tuple[list[Item], list[Loss]]:
        """Returns a client's own items for a relay, and the losses.

        Items are unchanged except for reasoning that this upstream did not seal: that is lowered as the profile says,
        or lost. Raises StoreUnavailable if the key cannot be loaded.
        """
        items: list[Item] = []
        losses: list[Loss] = []
        for index, item in enumerate(input_items):
            unsealed = self.unseal_item(item)
            if unsealed is item or unsealed.get(ENCRYPTED_CONTENT) or unsealed.get("type") != "reasoning":
                items.append(unsealed)
                continue
            replayed_items, item_losses = lower_items([unsealed], profile)
            items += replayed_items
            losses += [loss._replace(param=f"input[{index}]") for loss in item_losses]
        return items, losses


class ReplyItemSeal:
    """Seals the items of one reply for its client. The same item is sealed to the same text every time.

    `include_reasoning` is true if the client asked for reasoning that it can send back.
    """

    def __init__(self, reasoning_seal: ReasoningSeal, include_reasoning: bool) -> None:
        self._reasoning_seal = reasoning_seal
        self._include_reasoning = include_reasoning
        self._sealed_texts: dict[bytes, str] = {}
        self._own_texts: set[str] = set()
        """The values of `_sealed_texts`."""

    def use_seal(self, reasoning_seal: ReasoningSeal) -> None:
        """Seals items from now on for another upstream, which makes the next ones."""
        self._reasoning_seal = reasoning_seal

    def may_need_seal(self, payload: bytes) -> bool:
        """Whether an event of a Responses upstream may contain an item for `seal_added_item` or `seal_done_item`."""
        return b'"encrypted_content"' in payload or (self._include_reasoning and b'"reasoning"' in payload)

    def seal_added_item(self, item: Item) -> Item:
        """Returns an item of `output_item.added`, without its upstream-only keys: they are sealed when it is done."""
        if not (_DETAILS_KEY in item or ENCRYPTED_CONTENT in item):
            return item
        has_upstream_content = item.get(_DETAILS_KEY) or _encrypted_content(item) is not None
        return _remove_upstream_keys(item) if has_upstream_content else item

    def seal_done_item(self, item: Item) -> Item:
        """Returns a complete item, with its upstream-only keys sealed into `encrypted_content`.

        Without a key to seal with, they are removed.
        """
        if not (_DETAILS_KEY in item or ENCRYPTED_CONTENT in item or self._include_reasoning):
            return item
        encrypted_content = _encrypted_content(item)
        if encrypted_content is not None and encrypted_content in self._own_texts:
            return item
        payload = {
            name: item[name]
            for name in _UPSTREAM_KEYS
            if item.get(name) and (name != ENCRYPTED_CONTENT or encrypted_content is not None)
        }
        if self._include_reasoning and item.get("type") == "reasoning":
            payload |= {name: item[name] for name in _READABLE_KEYS if item.get(name)}
        if not payload:
            return item
        stripped = _remove_upstream_keys(item)
        sealed_text = self._seal_payload(payload)
        return stripped if sealed_text is None else {**stripped, ENCRYPTED_CONTENT: sealed_text}

    def _seal_payload(self, payload: Mapping[str, Any]) -> str | None:
        seal = self._reasoning_seal
        key = orjson.dumps(payload)
        if key not in self._sealed_texts:
            packed = orjson.dumps({"provider": seal.provider, "model": seal.model, **payload})
            if (text := seal.sealer.seal(packed, seal.owner)) is not None:
                self._sealed_texts[key] = text
                self._own_texts.add(text)
        return self._sealed_texts.get(key)


def has_upstream_content(item: Json) -> bool:
    """Whether an item has content that only its upstream can use, and that is not sealed."""
    text = _encrypted_content(item)
    return bool(item.get(_DETAILS_KEY)) or (text is not None and not is_sealed(text))


def _encrypted_content(item: Json) -> str | None:
    """Returns an item's `encrypted_content`; None without one, and for compaction items, whose format differs."""
    text = item.get(ENCRYPTED_CONTENT)
    return text if isinstance(text, str) and text and item.get("type") != "compaction" else None


def _remove_upstream_keys(item: Item) -> Item:
    return {name: value for name, value in item.items() if name not in _UPSTREAM_KEYS}
