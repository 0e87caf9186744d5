"""Replies of Gemini's API."""

from typing import Any

Json = dict[str, Any]

USAGE: Json = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}


def chunk(*parts: Json, reason: str | None = None, usage: Json | None = None) -> Json:
    """One chunk of a stream, or a whole answer."""
    candidate: Json = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if reason:
        candidate["finishReason"] = reason
    counted = {"usageMetadata": usage} if usage else {}
    return {"candidates": [candidate], **counted, "modelVersion": "scripted-model", "responseId": "r-1"}


def text(content: str, signature: str | None = None) -> Json:
    return {"text": content, **({"thoughtSignature": signature} if signature else {})}


def thought(content: str) -> Json:
    return {"text": content, "thought": True}


def call(name: str, args: Json, signature: str | None = None) -> Json:
    return {"functionCall": {"name": name, "args": args}, **({"thoughtSignature": signature} if signature else {})}


def last(*parts: Json) -> Json:
    """Returns the chunk with the finish reason and the usage."""
    return chunk(*(parts or (text(""),)), reason="STOP", usage=USAGE)


def error(code: int, status: str, message: str, *details: Json) -> Json:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}
