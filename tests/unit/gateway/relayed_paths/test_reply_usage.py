"""Token counts of relayed replies, wherever their bytes are cut."""

import orjson
import pytest

from gateway.relayed_paths.reply_usage import ReplyUsage
from translation.representation.json_types import Json

VECTOR = [0.123456789] * 3000
COUNTS: Json = {"prompt_tokens": 7, "total_tokens": 7}


def counts_of(*reads: bytes, head: bytes = b"") -> tuple[int | None, int | None] | None:
    usage = ReplyUsage(head)
    for read in reads:
        usage.feed(read)
    found = usage.find()
    return None if found is None else (found.input, found.output)


REPLIES: dict[str, tuple[bytes, tuple[int | None, int | None] | None]] = {
    "embeddings": (orjson.dumps({"data": [{"embedding": VECTOR}], "usage": COUNTS}), (7, None)),
    "a reply that is indented": (b'{\n  "usage" : {\n "prompt_tokens": 3\n}}', (3, None)),
    "a reranking": (orjson.dumps({"results": [], "usage": {"total_tokens": 9}}), (9, None)),
    "images": (orjson.dumps({"data": [], "usage": {"input_tokens": 4, "output_tokens": 5}}), (4, 5)),
    "a stream of a completion": (
        b'data: {"choices":[{"text":"Hi"}],"usage":null}\n\n'
        b'data: {"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":3}}\n\ndata: [DONE]\n\n',
        (2, 3),
    ),
    "counts in every chunk": (
        b'data: {"usage":{"prompt_tokens":2,"completion_tokens":1}}\n\n'
        b'data: {"usage":{"prompt_tokens":2,"completion_tokens":2}}\n\n',
        (2, 2),
    ),
    "seconds": (orjson.dumps({"text": "Hi", "usage": {"type": "duration", "seconds": 3}}), (None, None)),
    "none": (orjson.dumps({"text": "Hi"}), None),
    "no counts in them": (orjson.dumps({"text": "Hi", "usage": {}}), None),
    "a text about counts": (orjson.dumps({"text": '{"usage": {"prompt_tokens": 5}}'}), None),
    "a key that is a value": (b'["usage", {"prompt_tokens": 5}]', None),
    "many keys that are none": (b'{"usage": {"prompt_tokens": 5}, "a": [' + b'"usage", ' * 100 + b"1]}", None),
    "lists that are nested too deep": (b'{"usage":{"a":' + b"[" * 1500 + b"]" * 1500 + b"}}", None),
    "counts that were cut off": (b'{"usage": {"prompt_tokens": 5', None),
}


@pytest.mark.parametrize(("reply", "counts"), REPLIES.values(), ids=REPLIES)
def test_counts_are_found(reply: bytes, counts: tuple[int | None, int | None] | None) -> None:
    assert counts_of(reply) == counts
    assert counts_of(*(reply[start : start + 7] for start in range(0, len(reply), 7))) == counts
    assert counts_of(reply[10:], head=reply[:10]) == counts


def test_counts_at_the_beginning_are_found_in_what_was_examined() -> None:
    reply = orjson.dumps({"usage": COUNTS, "data": [{"embedding": VECTOR}]})
    assert counts_of(reply[100:], head=reply[:100]) == (7, None)


def test_no_more_than_the_end_of_a_reply_is_held() -> None:
    reply = orjson.dumps({"usage": COUNTS, "data": [{"embedding": VECTOR}]})
    assert counts_of(*(reply[start : start + 1000] for start in range(0, len(reply), 1000))) is None
