"""Remembers the last request of a check and what came back, for whoever has to find out why it failed."""

from collections import deque
from typing import Any, Final

import orjson

from translation.representation.json_types import Json

_MAX_TEXT_CHARS: Final = 160
"""Of one string in a request: pictures and prompts that overflow are longer than anybody reads."""
_MAX_REPLY_CHARS: Final = 2000
_MAX_FRAMES: Final = 4


class Transcript:
    """The last exchange, cut to what a person reads. Headers are no part of it: keys are in them."""

    def __init__(self) -> None:
        self._request_text = ""
        self._status: int | None = None
        self._reply = b""
        self._frames: deque[bytes] = deque(maxlen=_MAX_FRAMES)
        self._frame_count = 0

    @property
    def request_text(self) -> str:
        """Method, path and body; empty before the first request."""
        return self._request_text

    @property
    def reply_text(self) -> str:
        """Status and body; of a stream its last frames. Empty where nothing came."""
        if self._frame_count:
            left_out = self._frame_count - len(self._frames)
            lines = [f"200, and {self._frame_count} frames"] + ["..."] * bool(left_out)
            return "\n".join([*lines, *(_decode_shortened(frame) for frame in self._frames)])
        return "" if self._status is None else f"{self._status}\n{_decode_shortened(self._reply)}"

    def record_request(self, path: str, body: Json) -> None:
        """A request is sent."""
        self._request_text = f"POST {path}\n{orjson.dumps(_shorten(body), default=str).decode()}"
        self._status, self._frame_count = None, 0
        self._frames.clear()

    def record_reply(self, status: int, reply: bytes) -> None:
        """A whole reply came."""
        self._status, self._reply = status, reply

    def record_frame(self, payload: bytes) -> None:
        """One frame of a stream came."""
        self._frame_count += 1
        self._frames.append(payload)


def _shorten(value: Any) -> Any:
    match value:
        case str() if len(value) > _MAX_TEXT_CHARS:
            return f"{value[:_MAX_TEXT_CHARS]}... ({len(value)} characters)"
        case dict():
            return {key: _shorten(each) for key, each in value.items()}
        case list():
            return [_shorten(each) for each in value]
        case _:
            return value


def _decode_shortened(raw: bytes) -> str:
    text = raw.decode(errors="replace")
    return text if len(text) <= _MAX_REPLY_CHARS else f"{text[:_MAX_REPLY_CHARS]}... ({len(text)} characters)"
