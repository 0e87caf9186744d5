"""The reasoning carrier: what an upstream needs back of an item travels with the item, sealed.

A sealed `encrypted_content` names the upstream and the model it came from. They get back what is in it; any other gets
what can be read of the item.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from gateway.sealing.sealer import Sealer, Unreadable, is_sealed
from translation.errors import InvalidRequest
from translation.lowering.past_reasoning import is_mark
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn
from translation.responses.lower import replayed

SEALED: Final = "encrypted_content"
_DETAILS: Final = "details"
_NEEDED: Final = (_DETAILS, SEALED)
"""What an upstream needs back: in its own dialect's words, or what it has sealed itself."""

_READABLE: Final = ("summary", "content")


@dataclass(frozen=True, slots=True)
class Carrier:
    """What carries reasoning between one owner and one model of one upstream."""

    sealer: Sealer
    owner: str
    provider: str
    model: str
    seals_itself: bool
    """The upstream speaks Responses, so that `encrypted_content` may be its own, which it checks itself."""

    def check(self, given: object, earlier: int) -> None:
        """Raises InvalidRequest for the first item of an input, after `earlier` items of history, whose sealed part
        cannot be opened; StoreUnavailable where that cannot be told."""
        for place, item in enumerate(given[earlier:] if isinstance(given, list) else ()):
            if SEALED not in item:
                continue
            text = _sealed_in(item)
            if text is None or (self.seals_itself and not is_sealed(text)):
                continue
            try:
                self.sealer.unseal(text, self.owner)
            except Unreadable:
                raise InvalidRequest(
                    "The encrypted content of this item cannot be read: it was changed, or comes from another server "
                    "or another user. Send it as it was received, or leave the item out.",
                    param=f"input[{place}].{SEALED}",
                    code="invalid_encrypted_content",
                ) from None

    def opened(self, item: Item) -> Item:
        """An item as the upstream is told it. Raises StoreUnavailable."""
        text = _sealed_in(item)
        if text is None or not is_sealed(text):
            return item
        rest = {name: value for name, value in item.items() if name != SEALED}
        try:
            held: Json = orjson.loads(self.sealer.unseal(text, self.owner))
        except Unreadable:
            # Of history: its key is gone, and with it what only the upstream could read.
            return rest
        rest |= {name: held[name] for name in _READABLE if name in held}
        if (held["provider"], held["model"]) == (self.provider, self.model):
            rest |= {name: held[name] for name in _NEEDED if name in held}
        elif is_mark(held):
            rest[_DETAILS] = [{"thought": False}]
        return rest

    def opened_turn(self, turn: Turn) -> Turn:
        """A turn with its items as the upstream is told them. Raises StoreUnavailable."""
        for item in turn.items:
            if SEALED in item:
                return replace(turn, items=[self.opened(item) for item in turn.items])
        return turn

    def relayed(self, given: Sequence[Item], profile: Profile) -> tuple[list[Item], list[Loss]]:
        """A client's own items for an upstream that is relayed to: as they came, but for reasoning that this
        upstream did not seal, which is said as the profile says, or lost. Raises StoreUnavailable."""
        items: list[Item] = []
        losses: list[Loss] = []
        for place, item in enumerate(given):
            said = self.opened(item)
            if said is item or said.get(SEALED) or said.get("type") != "reasoning":
                items.append(said)
                continue
            again, lost = replayed([said], profile)
            items += again
            losses += [loss._replace(param=f"input[{place}]") for loss in lost]
        return items, losses


class ReplySeal:
    """Items of one reply as the client is told them. The same item is sealed to the same text every time.

    `included`: the client asked for reasoning that it can send back.
    """

    def __init__(self, carrier: Carrier, included: bool) -> None:
        self._carrier = carrier
        self._included = included
        self._texts: dict[bytes, str] = {}

    def concerns(self, payload: bytes) -> bool:
        """Whether an event of an upstream that speaks Responses may hold an item for `begun` or `ended`."""
        return b'"encrypted_content"' in payload or (self._included and b'"reasoning"' in payload)

    def begun(self, item: Item) -> Item:
        """An item that is announced: what is sealed is told at its end."""
        if not (_DETAILS in item or SEALED in item):
            return item
        is_needed = item.get(_DETAILS) or _sealed_in(item) is not None
        return _without_needed(item) if is_needed else item

    def ended(self, item: Item) -> Item:
        """An item that is complete."""
        if not (_DETAILS in item or SEALED in item or self._included):
            return item
        own = _sealed_in(item)
        if own is not None and own in self._texts.values():
            return item
        held = {name: item[name] for name in _NEEDED if item.get(name) and (name != SEALED or own is not None)}
        if self._included and item.get("type") == "reasoning":
            held |= {name: item[name] for name in _READABLE if item.get(name)}
        if not held:
            return item
        told = _without_needed(item)
        text = self._sealed(held)
        return told if text is None else {**told, SEALED: text}

    def _sealed(self, held: Mapping[str, Any]) -> str | None:
        carrier = self._carrier
        packed = orjson.dumps({"provider": carrier.provider, "model": carrier.model, **held})
        if packed not in self._texts and (text := carrier.sealer.seal(packed, carrier.owner)) is not None:
            self._texts[packed] = text
        return self._texts.get(packed)


def _sealed_in(item: Json) -> str | None:
    """What is sealed in an item; compaction items have a seal of their own."""
    text = item.get(SEALED)
    return text if isinstance(text, str) and text and item.get("type") != "compaction" else None


def _without_needed(item: Item) -> Item:
    return {name: value for name, value in item.items() if name not in _NEEDED}
