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


def embed(text: str) -> list[float]:
    """Returns a vector with a number for each meaning, and one for everything else."""
    words = re.findall(r"\w+", text.lower())
    return [*(float(sum(word in meaning for word in words)) for meaning in MEANINGS), 0.1]


async def answer(exchange: Exchange) -> None:
    """Answers a request of `/embeddings`."""
    body: Any = exchange.request.json
    data = [{"index": n, "embedding": embed(text)} for n, text in enumerate(body["input"])]
    await json_reply({"object": "list", "data": data, "usage": {"prompt_tokens": 1}})(exchange)
