"""A stream of a chat upstream, and what a client gets of it."""

from collections.abc import Iterable
from typing import Any

import orjson

from tests.unit.support.chat_chunks import chunk, text_chunk
from tests.unit.support.golden import GOLDEN
from tests.unit.support.translator_drivers import relay_to_end
from translation.chat.relaying.relay import ChatRelay
from translation.framing import sse
from translation.representation.json_types import Json

USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
DEATH = GOLDEN / "chat" / "vllm_engine_death_midstream.sse"


def relay(**options: Any) -> ChatRelay:
    defaults: dict[str, Any] = {"model": None, "reasoning_fields": frozenset({"reasoning"}), "include_usage": False}
    defaults |= {"identity": {"id": "c9", "created": 7, "model": "asked"}}
    return ChatRelay(**{**defaults, **options})


def wire(*chunks: Json, done: bool = True) -> bytes:
    return b"".join(sse.encode_data(orjson.dumps(each)) for each in chunks) + (sse.DONE_FRAME if done else b"")


def run(relaying: ChatRelay, reads: Iterable[bytes]) -> bytes:
    return relay_to_end(relaying, *reads)


TEXT = [
    chunk({"role": "assistant", "content": ""}),
    text_chunk("a"),
    text_chunk("b"),
    text_chunk("c"),
    chunk(finish="stop"),
]
