"""Checks replies of Gemini's API with an independent implementation of its rules."""

from base64 import b64decode
from typing import Any

import orjson

Json = dict[str, Any]

PART_KINDS = {"text", "inlineData", "functionCall"}
"""The possible keys of a part of a reply."""

_HEAD = {"modelVersion", "responseId", "createTime"}
_CANDIDATE = {"content", "index", "finishReason", "finishMessage", "groundingMetadata", "logprobsResult"}


def read_chunks(wire: bytes) -> list[Json]:
    """The chunks of a stream of events, whose frames must be exactly as the API's SDKs read them. Skips blank lines.

    An error is an event, and after it the same bare object, with which the stream ends.
    """
    *frames, rest = wire.lstrip(b"\n").split(b"\n\n")
    chunks = []
    for frame in frames:
        line = frame.lstrip(b"\n")
        assert line.startswith(b"data: {"), line
        assert b"\n" not in line
        chunks.append(orjson.loads(line.removeprefix(b"data: ")))
    assert all("error" not in chunk for chunk in chunks[:-1])
    assert rest == (orjson.dumps(chunks[-1]) if "error" in chunks[-1] else b""), "the stream ends inside a frame"
    return chunks


def check_content_reply(reply: Json) -> Json:
    """A whole reply, or one chunk of a stream. Returns it."""
    assert reply.keys() <= {"candidates", "usageMetadata", *_HEAD}, reply.keys()
    assert reply.keys() >= {"candidates", *_HEAD}, reply.keys()
    (candidate,) = reply["candidates"]
    assert candidate.keys() <= _CANDIDATE, candidate.keys()
    assert candidate["content"]["role"] == "model"
    assert candidate["content"]["parts"], "SDKs forget replies without parts"
    for part in candidate["content"]["parts"]:
        (kind,) = PART_KINDS & part.keys()
        assert part.keys() <= {kind, "thought", "thoughtSignature"}, part
        assert isinstance(part[kind], str if kind == "text" else dict)
        b64decode(part.get("thoughtSignature", ""), validate=True)
        if kind == "functionCall":
            assert part[kind].keys() == {"id", "name", "args"}
            assert isinstance(part[kind]["args"], dict)
    usage = reply.get("usageMetadata", {})
    assert all(type(count) is int and count >= 0 for count in usage.values()), usage
    if "totalTokenCount" in usage:
        assert (
            sum(count for name, count in usage.items() if name not in ("totalTokenCount", "cachedContentTokenCount"))
            == usage["totalTokenCount"]
        )
    return reply


def check_content_stream(wire: bytes, *, form: str = "events") -> Json:
    """Checks chunks, their order and their heads. Returns the reply that they add up to."""
    chunks = [check_content_reply(chunk) for chunk in (read_chunks(wire) if form == "events" else orjson.loads(wire))]
    *others, last = chunks
    assert last["candidates"][0]["finishReason"]
    assert all("finishReason" not in chunk["candidates"][0] for chunk in others)
    heads = [{key: chunk[key] for key in _HEAD} for chunk in chunks]
    assert all(head == heads[0] for head in heads)
    parts: list[Json] = []
    logprobs: list[Json] = []
    for chunk in chunks:
        (candidate,) = chunk["candidates"]
        logprobs += candidate.get("logprobsResult", {}).get("chosenCandidates", ())
        for part in candidate["content"]["parts"]:
            if part == {"text": ""}:
                continue
            before = parts[-1] if parts else {}
            is_continued = "text" in part and "text" in before and part.get("thought") == before.get("thought")
            if is_continued and "thoughtSignature" not in part:
                before["text"] += part["text"]
            else:
                parts.append(dict(part))
    candidate = {**last["candidates"][0], "content": {"parts": parts or [{"text": ""}], "role": "model"}}
    if logprobs:
        candidate["logprobsResult"] = {"chosenCandidates": logprobs}
    return {**last, "candidates": [candidate]}
