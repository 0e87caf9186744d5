"""Replies of llama-server's `/completion` when it serves gpt-oss: text as its server tells it, and its tokens.

The ids are those of gpt-oss's vocabulary, o200k_harmony.
"""

from collections.abc import Sequence
from typing import Final

from .builders import MODEL, Json

START, CHANNEL, CONSTRAIN, MESSAGE, END, RETURN, CALL = 200006, 200005, 200003, 200008, 200007, 200002, 200012

FINAL: Final = (CHANNEL, 17196, MESSAGE)
"""The header of an answer."""

TOKENS: Final = {"Grüße ": (3193, 572, 13153, 220), "from ": (2845, 220), "upstream": (817, 8598)}
"""Text -> its tokens."""


def chunk(content: str, *tokens: int, predicted: int | None = None) -> Json:
    """One object of a stream."""
    said: Json = {"index": 0, "content": content, "tokens": list(tokens), "stop": False, "id_slot": -1}
    return {**said, "tokens_evaluated": 9} | ({} if predicted is None else {"tokens_predicted": predicted})


def last(predicted: int, stop_type: str = "eos", content: str = "", tokens: Sequence[int] = ()) -> Json:
    """The object that ends a stream, or a whole answer."""
    return {
        **chunk(content, *tokens, predicted=predicted),
        "id_slot": 0,
        "stop": True,
        "model": MODEL,
        "stop_type": stop_type,
        "stopping_word": "",
        "truncated": False,
        "timings": {"cache_n": 4, "prompt_n": 5, "predicted_n": predicted},
    }


def text_chunks(*texts: str) -> list[Json]:
    """A plain answer: header and first text, a chunk for each further text, the end."""
    first, *others = texts
    chunks = [chunk(first, *FINAL, *TOKENS[first]), *(chunk(text, *TOKENS[text]) for text in others)]
    return [*chunks, last(sum(len(TOKENS[text]) for text in texts) + len(FINAL) + 1, tokens=[RETURN])]


def whole_text(*texts: str) -> Json:
    """Returns the same text as one JSON reply."""
    tokens = [*FINAL, *(token for text in texts for token in TOKENS[text]), RETURN]
    return last(len(tokens), content="".join(texts), tokens=tokens)


def error(status: int, message: str) -> Json:
    return {"error": {"code": status, "message": message, "type": "invalid_request_error"}}
