"""A model of embeddings that knows a few meanings: words of one meaning have one direction."""

import re
from typing import Any, Final

from tests.upstream.builders import json_reply
from tests.upstream.script import Exchange

MEANINGS: Final = (
    ("cat", "cats", "feline", "kitten"),
    ("dog", "dogs", "hound", "canine"),
    ("sleep", "sleeps", "slumber", "nap"),
    ("key", "keys", "unlock"),
)


def embed(text: str, size: int = len(MEANINGS) + 1) -> list[float]:
    """Returns a vector with a number for each meaning, one for everything else, and zeros up to its size."""
    words = re.findall(r"\w+", text.lower())
    numbers = [*(float(sum(word in meaning for word in words)) for meaning in MEANINGS), 0.1]
    return [*numbers, *(0.0 for _ in range(size - len(numbers)))]


async def answer(exchange: Exchange) -> None:
    """Answers a request of `/embeddings`, with vectors of its own size."""
    await _answer(exchange, len(MEANINGS) + 1)


async def answer_in_size(exchange: Exchange) -> None:
    """Answers a request of `/embeddings`, with vectors of the size that it asks for."""
    body: Any = exchange.request.json
    await _answer(exchange, body.get("dimensions", len(MEANINGS) + 1))


async def _answer(exchange: Exchange, size: int) -> None:
    body: Any = exchange.request.json
    data = [{"index": n, "embedding": embed(text, size)} for n, text in enumerate(body["input"])]
    await json_reply({"object": "list", "data": data, "usage": {"prompt_tokens": 1}})(exchange)
