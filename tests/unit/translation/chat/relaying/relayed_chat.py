"""A stream of a chat upstream, and what a client gets of it."""

from collections.abc import Iterable
from typing import Any

import orjson

from tests.unit.support.chat_chunks import chunk, text_chunk
from tests.unit.support.golden import GOLDEN
from tests.unit.support.translator_drivers import relay_to_end
from translation.chat.relaying.choices import ChunkForm
from translation.chat.relaying.chunk_identity import OwnCompletion
from translation.chat.relaying.relay import ChatRelay
from translation.framing import sse
from translation.representation.json_types import Json

USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
DEATH = GOLDEN / "chat" / "vllm_engine_death_midstream.sse"


def relay(**options: Any) -> ChatRelay:
    """Returns a relay with these fields of OwnCompletion and ChunkForm, and these arguments."""
    settings: dict[str, Any] = {"model": None, "identity": {"id": "c9", "created": 7, "model": "asked"}}
    settings |= {"reasoning_fields": frozenset({"reasoning"}), **options}
    own = OwnCompletion(settings.pop("model"), settings.pop("identity"))
    form = ChunkForm(**{field: settings.pop(field) for field in ChunkForm._fields if field in settings})
    return ChatRelay(own, form, **settings)


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
