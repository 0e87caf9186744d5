"""Engines behind HTTP, before a scripted server."""

from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from providers.engines.base import EngineDelta, GenerationRequest, TokenPrompt
from providers.engines.servers.remote import RemoteEngine
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import data_frame

Start = Callable[[type[Any], ScriptedUpstream], RemoteEngine]
PROMPT = TokenPrompt(tokens=[1, 2, 3], tail="abc")


async def pieces(engine: RemoteEngine, **params: Any) -> list[EngineDelta]:
    async with aclosing(engine.generate(PROMPT, GenerationRequest(**{"max_tokens": 9, **params}))) as found:
        return [piece async for piece in found]


def llama(text: str, tokens: list[int], made: int, **more: Any) -> bytes:
    return data_frame({"content": text, "tokens": tokens, "stop": False, "tokens_predicted": made, **more})


def llama_end(kind: str, made: int, text: str = "", **more: Any) -> bytes:
    end = {"content": text, "tokens": [], "stop": True, "tokens_predicted": made, "stop_type": kind, **more}
    return data_frame({"stopping_word": "", "timings": {"cache_n": 2}, **end})


def vllm(text: str, tokens: list[int], reason: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "text": text, "token_ids": tokens, "finish_reason": reason, "stop_reason": None, **more}
    return data_frame({"choices": [choice]})
