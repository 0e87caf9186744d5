"""Google's SDK for Gemini's API: `google_genai.py CASE`, with BASE_URL and MODEL in the environment."""

import asyncio
import json
import os
import sys
from enum import Enum
from typing import Any

from google import genai
from google.genai import types
from google.genai.errors import APIError
from pydantic import BaseModel

MODEL = os.environ["MODEL"]
CLIENT = genai.Client(api_key="none", http_options={"base_url": os.environ["BASE_URL"]})
PROMPT = os.environ.get("PROMPT", "Go on.")


class Total(BaseModel):
    total: int


class Direction(Enum):
    UP = "up"
    DOWN = "down"


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def text() -> Any:
    got = CLIENT.models.generate_content(model=MODEL, contents=PROMPT)
    assert got.usage_metadata
    return {
        "text": got.text,
        "usage": [got.usage_metadata.prompt_token_count, got.usage_metadata.candidates_token_count],
        "model": got.model_version,
    }


def text_streamed() -> Any:
    chunks = [*CLIENT.models.generate_content_stream(model=MODEL, contents=PROMPT)]
    candidates = chunks[-1].candidates
    return {
        "deltas": [chunk.text for chunk in chunks if chunk.text],
        "finish": str((candidates or [])[0].finish_reason),
    }


def text_streamed_async() -> Any:
    async def read() -> list[str]:
        stream = await CLIENT.aio.models.generate_content_stream(model=MODEL, contents=PROMPT)
        return [chunk.text async for chunk in stream if chunk.text]

    return {"deltas": asyncio.run(read())}


def tools() -> Any:
    config = types.GenerateContentConfig(tools=[add], temperature=0)
    return {"text": CLIENT.models.generate_content(model=MODEL, contents=PROMPT, config=config).text}


def chat() -> Any:
    config = types.GenerateContentConfig(thinking_config=types.ThinkingConfig(include_thoughts=True))
    session = CLIENT.chats.create(model=MODEL, config=config)
    first = [*session.send_message_stream("Go on.")]
    thoughts = [
        part.text
        for chunk in first
        for candidate in chunk.candidates or ()
        for part in (candidate.content and candidate.content.parts) or ()
        if part.thought
    ]
    second = session.send_message("And on.")
    return {"thoughts": thoughts, "text": second.text, "contents": len(session.get_history(curated=True))}


def values() -> Any:
    listed = types.GenerateContentConfig(response_mime_type="application/json", response_schema=list[Total])
    totals: Any = CLIENT.models.generate_content(model=MODEL, contents=PROMPT, config=listed).parsed
    chosen = types.GenerateContentConfig(response_mime_type="text/x.enum", response_schema=Direction)
    direction: Any = CLIENT.models.generate_content(model=MODEL, contents=PROMPT, config=chosen).parsed
    return {"totals": [total.total for total in totals], "direction": direction.name}


def parsed() -> Any:
    config = types.GenerateContentConfig(response_mime_type="application/json", response_schema=Total)
    got = CLIENT.models.generate_content(model=MODEL, contents=PROMPT, config=config).parsed
    return got and got.model_dump()  # type: ignore[union-attr]


def image() -> Any:
    pixel = types.Part.from_bytes(data=b"\xfb\xff\xfe", mime_type="image/png")
    return {"text": CLIENT.models.generate_content(model=MODEL, contents=[pixel, "What is it?"]).text}


def refused() -> Any:
    try:
        CLIENT.models.generate_content(model=MODEL, contents=PROMPT)
    except APIError as error:
        return {"code": error.code, "status": error.status}


def broken_off() -> Any:
    deltas: list[str | None] = []
    try:
        deltas.extend(chunk.text for chunk in CLIENT.models.generate_content_stream(model=MODEL, contents=PROMPT))
    except APIError as error:
        return {"deltas": deltas, "code": error.code, "status": error.status}


def models() -> Any:
    return {"names": [model.name for model in CLIENT.models.list()], "one": CLIENT.models.get(model="demo").name}


def counted() -> Any:
    try:
        return {"tokens": CLIENT.models.count_tokens(model=MODEL, contents=PROMPT).total_tokens}
    except APIError as error:
        return {"code": error.code}


def embedded() -> Any:
    one = CLIENT.models.embed_content(model=MODEL, contents="one")
    config = types.EmbedContentConfig(output_dimensionality=2, task_type="CLUSTERING", title="T")
    several = CLIENT.models.embed_content(model=MODEL, contents=["one", "two"], config=config)
    later = asyncio.run(CLIENT.aio.models.embed_content(model=MODEL, contents=["three"]))
    headers = several.sdk_http_response and several.sdk_http_response.headers
    return {
        "vectors": [[each.values for each in got.embeddings or ()] for got in (one, several, later)],
        "tokens": several.usage_metadata and several.usage_metadata.prompt_token_count,
        "losses": headers and headers["x-gateway-loss"],
    }


print(json.dumps(globals()[sys.argv[1]]()))
