"""Events for parts of replies that no client is shown, so that they are reported and not dropped silently.

They are media under keys that no API documents, images of the thinking, and final texts beside what was streamed.
"""

from collections.abc import Set
from typing import Any, Final

from translation.representation.events import Event, Opaque
from translation.representation.json_types import Json
from translation.representation.loss import FINAL_TEXT, THOUGHT_IMAGE

_MEDIA_KEYS: Final = frozenset({"audio", "audios", "file", "files", "image", "images", "media", "video", "videos"})
"""Names of keys that hold media, whatever their values look like."""

_DATA_KEYS: Final = frozenset({"b64_json", "base64", "file_data", "inline_data"})
"""Keys of an object that has media. Citations have addresses too, and reasoning has `data`."""


def find_unknown_media(message: Json, known_keys: Set[str], dialect: str) -> list[Event]:
    """Returns an event for each key of a message or delta with media that is not one of `known_keys`.

    Other unknown keys are facts about the message, and not output.
    """
    return [
        Opaque(dialect, {"type": key}, is_output=True)
        for key, value in message.items()
        if value and key not in known_keys and (key in _MEDIA_KEYS or _is_media(value))
    ]


def build_final_text_event() -> Opaque:
    """Returns the event for a final text that is another form of the text that was streamed, which stands."""
    return Opaque("gateway", {"type": FINAL_TEXT.removeprefix("output.")}, is_output=True)


def build_thought_image_event(dialect: str) -> Opaque:
    """Returns the event for an image in a model's thinking, whose form has text only."""
    return Opaque(dialect, {"type": THOUGHT_IMAGE.removeprefix("output.")}, is_output=True)


def _is_media(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_is_media, value[:1]))
    if isinstance(value, dict):
        return not _DATA_KEYS.isdisjoint(value)
    return isinstance(value, str) and value.startswith("data:")
