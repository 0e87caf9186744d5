"""Converts a completion between stream and whole reply, for upstreams that reply in the form that was not requested."""

from typing import Any, Final

import orjson

from translation.chat.reasoning import REASONING_TEXT_FIELDS
from translation.framing import sse
from translation.representation.json_types import Json

_STREAMED_KEYS: Final = frozenset(
    {
        *("content", "refusal", *REASONING_TEXT_FIELDS),
        *("arguments", "input"),  # of calls
        *("text", "summary", "data"),  # of `reasoning_details`
        "transcript",  # of `audio`, besides `data`
    }
)
"""The keys of a delta and of the objects in it whose texts are streamed in pieces. Any other text is whole each time it
comes, such as the reason why a choice ended, which some upstreams repeat."""


def build_completion_stream(completion: Json) -> bytes:
    """Returns a whole reply as a stream: one chunk with every choice, one with the usage, and `[DONE]`.

    A body that is not a completion also becomes a chunk. The decoder of the stream refuses it.
    """
    head = {key: value for key, value in completion.items() if key not in ("object", "choices", "usage")}
    head["object"] = "chat.completion.chunk"
    choices = completion.get("choices")
    chunks = [{**head, "choices": [_as_delta(choice) for choice in choices] if isinstance(choices, list) else choices}]
    if usage := completion.get("usage"):
        chunks.append({**head, "choices": [], "usage": usage})
    return b"".join(sse.encode_data(orjson.dumps(chunk)) for chunk in chunks) + sse.DONE_FRAME


def build_completion(frames: bytes) -> Json:
    """Returns a stream that ended without an error as a whole reply.

    `frames` are complete server-sent events with LF line ends, whose data are JSON objects.
    """
    completion: Json = {}
    choices: dict[int, Json] = {}
    merger = _DeltaMerger()
    for payload in sse.FrameDecoder(len(frames), is_own=True).parse_payloads(frames):
        if payload == sse.DONE_PAYLOAD:
            continue
        chunk = orjson.loads(payload)
        for choice in chunk.pop("choices", None) or ():
            index = choice.get("index") or 0
            whole = choices.setdefault(index, {"index": index, "message": {"role": "assistant", "content": None}})
            merger.merge(whole["message"], choice.pop("delta", None) or {})
            merger.merge(whole, choice)
        completion |= {key: value for key, value in chunk.items() if value is not None}
    completion |= {"object": "chat.completion", "choices": [_join_texts(choices[index]) for index in sorted(choices)]}
    for choice in completion["choices"]:
        for call in choice["message"].get("tool_calls") or ():
            if isinstance(call, dict):
                call.pop("index", None)
    return completion


def _as_delta(choice: Any) -> Any:
    if not isinstance(choice, dict) or not isinstance(message := choice.get("message"), dict):
        return choice
    delta = {key: value for key, value in message.items() if value is not None}
    if calls := message.get("tool_calls"):
        delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls)]
    rest = {key: value for key, value in choice.items() if key != "message"}
    # A whole reply without a reason is complete. A stream without one would have broken off.
    rest["finish_reason"] = choice.get("finish_reason") or ("tool_calls" if calls else "stop")
    return {"delta": delta, **rest}


class _Pieces:
    """A text that is joined once it is complete, because a long text must not be copied with each delta."""

    def __init__(self, *pieces: str) -> None:
        self.pieces = list(pieces)


class _DeltaMerger:
    """Merges deltas: streamed texts and lists grow, objects merge, others replace."""

    def __init__(self) -> None:
        self._entries: dict[int, dict[Any, Json]] = {}
        """The entries of each list by their `index`. A list is found by its identity: it is in the reply to the end."""

    def merge(self, whole: Json, delta: Json) -> None:
        """Adds a delta to `whole`, whose texts are _Pieces until `join_texts` is called."""
        for key, value in delta.items():
            current = whole.get(key)
            if value is None:
                whole.setdefault(key, None)
            elif current is None:
                whole[key] = value
            elif isinstance(value, dict) and isinstance(current, dict):
                self.merge(current, value)
            elif isinstance(value, list) and isinstance(current, list):
                self._merge_entries(current, value)
            elif isinstance(value, str) and isinstance(current, _Pieces):
                current.pieces.append(value)
            elif isinstance(value, str) and isinstance(current, str) and key in _STREAMED_KEYS:
                whole[key] = _Pieces(current, value)
            else:
                whole[key] = value

    def _merge_entries(self, known: list[Any], entries: list[Any]) -> None:
        """Merges entries that have an `index` into the known entry with that index, and appends the others."""
        by_index = self._entries.get(id(known))
        if by_index is None:
            by_index = self._entries[id(known)] = {}
            for entry in known:
                if (index := _index_of(entry)) is not None:
                    by_index.setdefault(index, entry)
        for entry in entries:
            index = _index_of(entry)
            existing = None if index is None else by_index.get(index)
            if existing is not None:
                self.merge(existing, entry)
                continue
            known.append(entry)
            if index is not None:
                by_index[index] = entry


def _index_of(entry: Any) -> int | None:
    index = entry.get("index") if isinstance(entry, dict) else None
    return index if isinstance(index, int) else None


def _join_texts(value: Any) -> Any:
    """Returns a merged value whose texts are whole."""
    match value:
        case _Pieces():
            return "".join(value.pieces)
        case dict():
            return {key: _join_texts(inner) for key, inner in value.items()}
        case list():
            return [_join_texts(inner) for inner in value]
    return value
