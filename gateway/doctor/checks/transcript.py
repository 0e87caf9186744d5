"""Remembers the last request of a check and what came back, for whoever has to find out why it failed."""

from collections import deque
from typing import Any, Final

import orjson

from translation.representation.json_types import Json

_LONGEST_TEXT: Final = 160
"""Of one string in a request: pictures and prompts that overflow are longer than anybody reads."""
_LONGEST_REPLY: Final = 2000
_LAST_FRAMES: Final = 4


class Witness:
    """The last exchange, cut to what a person reads. Headers are no part of it: keys are in them."""

    def __init__(self) -> None:
        self._asked = ""
        self._status: int | None = None
        self._reply = b""
        self._frames: deque[bytes] = deque(maxlen=_LAST_FRAMES)
        self._count = 0

    @property
    def asked(self) -> str:
        """Method, path and body; empty before the first request."""
        return self._asked

    @property
    def came(self) -> str:
        """Status and body; of a stream its last frames. Empty where nothing came."""
        if self._count:
            left_out = self._count - len(self._frames)
            told = [f"200, and {self._count} frames"] + ["..."] * bool(left_out)
            return "\n".join([*told, *(_cut(frame) for frame in self._frames)])
        return "" if self._status is None else f"{self._status}\n{_cut(self._reply)}"

    def sees(self, path: str, body: Json) -> None:
        """A request is sent."""
        self._asked = f"POST {path}\n{orjson.dumps(_shortened(body), default=str).decode()}"
        self._status, self._count = None, 0
        self._frames.clear()

    def hears(self, status: int, reply: bytes) -> None:
        """A whole reply came."""
        self._status, self._reply = status, reply

    def hears_frame(self, payload: bytes) -> None:
        """One frame of a stream came."""
        self._count += 1
        self._frames.append(payload)


def _shortened(value: Any) -> Any:
    match value:
        case str() if len(value) > _LONGEST_TEXT:
            return f"{value[:_LONGEST_TEXT]}... ({len(value)} characters)"
        case dict():
            return {key: _shortened(each) for key, each in value.items()}
        case list():
            return [_shortened(each) for each in value]
        case _:
            return value


def _cut(raw: bytes) -> str:
    text = raw.decode(errors="replace")
    return text if len(text) <= _LONGEST_REPLY else f"{text[:_LONGEST_REPLY]}... ({len(text)} characters)"
