"""Chunks as Gemini sends them."""

from typing import Any

from translation.representation.json_types import Json

USAGE: Json = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}


def chunk(*parts: Any, reason: str | None = None, usage: Json | None = None, **candidate: Any) -> Json:
    """A chunk of the first candidate; further arguments are the candidate's."""
    content = {"content": {"role": "model", "parts": list(parts)}} if parts else {}
    reasoned = {"finishReason": reason} if reason else {}
    counted = {"usageMetadata": usage} if usage else {}
    return {"candidates": [{**content, **reasoned, **candidate}], "modelVersion": "m-1", "responseId": "r", **counted}


def text(content: str, signature: str | None = None) -> Json:
    return {"text": content} | _signed(signature)


def thought(content: str, signature: str | None = None) -> Json:
    return {"text": content, "thought": True} | _signed(signature)


def call(name: str, args: Any = None, signature: str | None = None, **more: Any) -> Json:
    given = {} if args is None else {"args": args}
    return {"functionCall": {"name": name, **given, **more}} | _signed(signature)


def _signed(signature: str | None) -> Json:
    return {"thoughtSignature": signature} if signature else {}
