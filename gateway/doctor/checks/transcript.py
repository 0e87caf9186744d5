"""Records the last request of a check and its reply, to explain why the check failed."""

from collections import deque
from typing import Any, Final

import orjson

from translation.representation.json_types import Json

_MAX_TEXT_CHARS: Final = 160
"""The longest string in a request. Images, and prompts that overflow the context, are too long to read."""
_MAX_REPLY_CHARS: Final = 2000
_MAX_FRAMES: Final = 4


class Transcript:
    """The last request and its reply, shortened for people. Headers are not recorded, because they have API keys."""

    def __init__(self) -> None:
        self._request_text = ""
        self._status: int | None = None
        self._reply = b""
        self._frames: deque[bytes] = deque(maxlen=_MAX_FRAMES)
        self._frame_count = 0

    @property
    def request_text(self) -> str:
        """Method, path and body. Empty before the first request."""
        return self._request_text

    @property
    def reply_text(self) -> str:
        """Status and body, or the last frames of a stream. Empty if nothing was received."""
        if self._frame_count:
            omitted_count = self._frame_count - len(self._frames)
            lines = [f"200, and {self._frame_count} frames"] + ["..."] * bool(omitted_count)
            return "\n".join([*lines, *(_decode_shortened(frame) for frame in self._frames)])
        return "" if self._status is None else f"{self._status}\n{_decode_shortened(self._reply)}"

    def record_request(self, path: str, body: Json) -> None:
        """Records a request, and discards the previous reply."""
        self._request_text = f"POST {path}\n{orjson.dumps(_shorten(body), default=str).decode()}"
        self._status, self._frame_count = None, 0
        self._frames.clear()

    def record_reply(self, status: int, reply: bytes) -> None:
        """Records a whole reply."""
        self._status, self._reply = status, reply

    def record_frame(self, payload: bytes) -> None:
        """Records one frame of a stream."""
        self._frame_count += 1
        self._frames.append(payload)


def _shorten(value: Any) -> Any:
    match value:
        case str() if len(value) > _MAX_TEXT_CHARS:
            return f"{value[:_MAX_TEXT_CHARS]}... ({len(value)} characters)"
        case dict():
            return {key: _shorten(entry) for key, entry in value.items()}
        case list():
            return [_shorten(entry) for entry in value]
        case _:
            return value


def _decode_shortened(raw: bytes) -> str:
    text = raw.decode(errors="replace")
    return text if len(text) <= _MAX_REPLY_CHARS else f"{text[:_MAX_REPLY_CHARS]}... ({len(text)} characters)"
