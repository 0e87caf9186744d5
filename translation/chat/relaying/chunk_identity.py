"""The id, the time and the model's name in relayed chunks, of which the gateway may replace some."""

from typing import Any, Final, NamedTuple

import orjson

from translation.representation.json_types import Json

_IDENTITY_KEYS: Final = ("id", "created", "model")
"""Keys of a chunk that identify the completion and its model."""


class OwnCompletion(NamedTuple):
    """The gateway's part of a relayed completion."""

    model: str | None
    """The model's name that the client knows; None keeps the upstream's."""
    identity: Json
    """The id, the time and the model (`id`, `created`, `model`) in chunks of the relay itself, until the upstream has
    sent its own."""
    is_stored: bool = False
    """Whether the gateway stores the completion. Then all chunks have the id and time of `identity`."""


class ChunkIdentity:
    """The identity of one stream of chunks, as the client gets it."""

    def __init__(self, own: OwnCompletion) -> None:
        self.members: Json = {**own.identity, "object": "chat.completion.chunk"}
        """The members of the next chunk of the relay itself."""
        self.replacements: list[tuple[bytes, bytes]] = []
        """Members of the upstream's chunks as JSON bytes, each with the member that replaces it."""
        self._overrides: Json = {key: own.identity[key] for key in ("id", "created")} if own.is_stored else {}
        if own.model is not None:
            self._overrides["model"] = own.model
        self._last_identity: tuple[Any, ...] | None = None
        """The values of `_IDENTITY_KEYS` in the last chunk that was parsed."""
        self._is_overridden = False
        """Whether chunks with that identity need other values in some of these keys."""

    def override(self, chunk: Json) -> bool:
        """Learns the upstream's identity, and sets the gateway's values in the chunk. Returns whether it changed."""
        chunk_identity = (chunk.get("id"), chunk.get("created"), chunk.get("model"))
        if chunk_identity != self._last_identity:
            self._last_identity = chunk_identity
            for key, value in zip(_IDENTITY_KEYS, chunk_identity, strict=True):
                if value:
                    self.members[key] = value
            if self._overrides:
                self._learn_replacements(chunk)
        if self._is_overridden:
            chunk |= self._overrides
        return self._is_overridden

    def _learn_replacements(self, chunk: Json) -> None:
        self.members |= self._overrides
        changed_keys = [key for key in self._overrides if chunk.get(key) != self._overrides[key]]
        self._is_overridden = bool(changed_keys)
        if changed_keys:
            self.replacements = [
                (_build_member(key, chunk.get(key)), _build_member(key, self._overrides[key])) for key in changed_keys
            ]


def _build_member(key: str, value: Any) -> bytes:
    return orjson.dumps({key: value})[1:-1]
