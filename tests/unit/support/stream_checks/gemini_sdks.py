"""Reads streams of Gemini's API as Google's SDKs do. Each function raises SdkError where the SDK raises an error.

Each returns the payloads that its callers get. What they raise differs by the read of the connection in which a frame
arrives, so a stream is a sequence of reads.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson


class SdkError(Exception):
    """An SDK raises an error. `code` is the status in it, if it has one."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code


def read_as_javascript(reads: Sequence[bytes]) -> list[Any]:
    """`processStreamResponse` in src/_api_client.ts of googleapis/js-genai, version 2.32."""
    return _read_as_javascript(reads, examines_events=True)


def read_as_older_javascript(reads: Sequence[bytes]) -> list[Any]:
    """The same in versions 1.x, which look for an error only in a whole read."""
    return _read_as_javascript(reads, examines_events=False)


def _read_as_javascript(reads: Sequence[bytes], *, examines_events: bool) -> list[Any]:
    chunks: list[Any] = []
    buffer = ""
    for read in reads:
        _raise_for_javascript(read.decode())
        buffer += read.decode()
        *events, buffer = buffer.split("\n\n")
        for event in events:
            if event.strip().startswith("data:"):
                payload = event.strip().removeprefix("data:").strip()
                if examines_events:
                    _raise_for_javascript(payload)
                chunks.append(orjson.loads(payload))
    if buffer.strip():
        raise SdkError(None)  # "Incomplete JSON segment at the end"
    return chunks


def _raise_for_javascript(text: str) -> None:
    try:
        error = orjson.loads(text)["error"]
    except (ValueError, TypeError, KeyError):
        return
    if 400 <= error["code"] < 600:
        raise SdkError(error["code"])


def read_as_python(reads: Sequence[bytes]) -> list[Any]:
    """`_iter_response_stream` and `request_streamed` in google/genai/_api_client.py of googleapis/python-genai."""
    chunks: list[Any] = []
    for line in b"".join(reads).splitlines():
        if line:
            chunks.append(orjson.loads(line.removeprefix(b"data: ")))
            if [*chunks[-1]][:1] == ["error"]:
                raise SdkError(chunks[-1]["error"]["code"])
    return chunks


def read_as_go(reads: Sequence[bytes]) -> list[Any]:
    """`iterateResponseStream` in api_client.go of googleapis/go-genai."""
    chunks: list[Any] = []
    for event in b"".join(reads).split(b"\n\n"):
        prefix, _, data = event.partition(b":")
        if prefix == b"data":
            chunks.append(orjson.loads(data))
        elif event:
            raise SdkError(orjson.loads(event)["error"]["code"])
    return chunks


SDK_READERS: Final[Mapping[str, Callable[[Sequence[bytes]], list[Any]]]] = {
    "JavaScript": read_as_javascript,
    "JavaScript, older": read_as_older_javascript,
    "Python": read_as_python,
    "Go": read_as_go,
}
