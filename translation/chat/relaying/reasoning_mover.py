"""Moves reasoning in relayed messages and deltas to the fields that the client reads."""

from functools import lru_cache
from typing import Final

from translation.chat.reasoning import DETAILS_FIELD, find_reasoning_text
from translation.chat.reply_objects import flatten_text
from translation.representation.json_types import Json

_OTHER_CONTENT_KEYS: Final = frozenset({DETAILS_FIELD, "content", "refusal", "tool_calls", "function_call", "audio"})
"""Keys of a delta that hold content, beside its reasoning text."""

_MOVED_PARTS: Final = frozenset({"text", "output_text", "thinking", "reference", "image_url", None})
"""Types of content parts whose text is the content, or that have a field of their own. References of Mistral are ids of
documents, which have no text."""

_USUAL_START: Final = b'"reasoning'
"""The beginning of most reasoning fields. A chunk without it is examined for no single field."""


class ReasoningMover:
    """Moves reasoning text from `upstream_fields` to `client_fields`.

    `reasoning_details` stay beside them, for clients that send them back. They are removed only if the client reads no
    reasoning at all.
    """

    def __init__(self, upstream_fields: tuple[str, ...], client_fields: frozenset[str]) -> None:
        self.text_fields = ("content", *upstream_fields)
        """The fields in which a delta of the upstream may have its text."""
        self.content_keys = _OTHER_CONTENT_KEYS.union(upstream_fields)
        """Keys of a delta that hold content. Once content was sent, a retry would repeat it."""
        self._upstream_fields = upstream_fields
        self._client_fields = client_fields
        self._read_keys = frozenset({DETAILS_FIELD, *upstream_fields})
        # A chunk of the client's only field is right as it is. With several fields, each chunk gets the others too.
        moved = set(upstream_fields) - (client_fields if len(client_fields) == 1 else set())
        hidden = () if client_fields else (DETAILS_FIELD,)
        self._moved_keys = [b'"%b":' % field.encode() for field in (*sorted(moved), *hidden)]
        self._quick_mark = _USUAL_START if all(key.startswith(_USUAL_START) for key in self._moved_keys) else b'"'

    def may_move(self, payload: bytes) -> bool:
        """Whether a chunk in compact JSON may have reasoning that `move` would change."""
        return payload.find(self._quick_mark) >= 0 and any(map(payload.count, self._moved_keys))

    def move(self, message: Json) -> bool:
        """Moves the reasoning of a delta or message, in place. Returns whether anything changed."""
        if self._read_keys.isdisjoint(message):
            return False
        text = next((text for field in self._upstream_fields if (text := message.get(field))), None)
        hidden = not self._client_fields and message.get(DETAILS_FIELD)
        if not (text or hidden):
            return False
        before = {key: message[key] for key in self._upstream_fields if key in message}
        target = dict.fromkeys(sorted(self._client_fields), text) if text else {}
        current = {key: value for key, value in before.items() if value}
        if current == target and not hidden:
            return False
        for key in before:
            del message[key]
        message |= target
        if hidden:
            del message[DETAILS_FIELD]
        return True

    def flatten_content(self, message: Json) -> bool:
        """Replaces a list of content parts, as Mistral sends it, by its text.

        Parts of thinking are moved to a reasoning field, and images to `images`, where chat clients find them. A list
        with parts of other kinds is left as it is, because nothing else would show them. The message is changed in
        place. Returns whether it was.
        """
        parts = message.get("content")
        if not isinstance(parts, list):
            return False
        if any(isinstance(part, dict) and part.get("type") not in _MOVED_PARTS for part in parts):
            return False
        thoughts = [part["thinking"] for part in parts if isinstance(part, dict) and "thinking" in part]
        images = [part for part in parts if isinstance(part, dict) and part.get("type") == "image_url"]
        message["content"] = flatten_text(parts)
        if images and not message.get("images"):
            message["images"] = images
        if thoughts and not find_reasoning_text(message, self._upstream_fields):
            message[self._upstream_fields[0]] = flatten_text(thoughts)
        return True


@lru_cache(64)
def make_reasoning_mover(upstream_fields: tuple[str, ...], client_fields: frozenset[str]) -> ReasoningMover:
    """Returns the mover for two kinds of fields. It has no state, and a server has few kinds."""
    return ReasoningMover(upstream_fields, client_fields)
