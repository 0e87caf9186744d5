"""The embedded demo model: deterministic, offline, and able to do what a client may try first."""

import asyncio
import math
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import replace
from typing import Final

from providers.base import Batch, Capabilities, Counting, Dialect, RelayExchange
from providers.config import ProviderConfig
from providers.new_id import new_id
from providers.scripted.reply import Reply, reply_to, words_of
from translation.representation.events import Event, Finished, FinishReason, Started, Usage
from translation.representation.item_writer import ItemWriter
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

_CAPABILITIES = Capabilities(
    streaming=True,
    tools=True,
    parallel_tools=True,
    images=True,
    audio=True,
    files=True,
    reasoning=True,
    json_schema=True,
    logprobs=True,
    models=True,
    counting="turn",
)

_TOKEN = re.compile(r"\s*\S{1,12}|\s+")
"""A word with the space before it; a long word is several."""

_TOKENS_PER_BATCH = 4


class ScriptedProvider:
    """A provider without an upstream. What it replies is `reply_to`'s; here it becomes a stream."""

    def __init__(self, name: str, config: ProviderConfig) -> None:
        self._name = name
        self._capabilities = replace(_CAPABILITIES, **config.capabilities.given())

    @property
    def name(self) -> str:
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def prepare(self, turn: Turn, profile: Profile) -> "ScriptedExchange":
        return ScriptedExchange(turn, reply_to(turn), [Loss(key, "dropped") for key in turn.extra])

    def relay(self, dialect: Dialect, body: Json) -> RelayExchange:
        raise ValueError(f"the scripted provider speaks no dialect, so not {dialect}")

    async def count(self, turn: Turn, profile: Profile, way: Counting) -> int:
        return _count(turn)

    async def models(self) -> Sequence[str]:
        return ["demo"]

    def scrub(self, message: str) -> str:
        return message

    async def aclose(self) -> None:
        """There is nothing to close."""


def _count(turn: Turn) -> int:
    return len(_TOKEN.findall(words_of(turn)))


class ScriptedExchange:
    """One reply, ready to be streamed."""

    def __init__(self, turn: Turn, reply: Reply, losses: Sequence[Loss]) -> None:
        self.losses: Final = losses
        self._turn = turn
        self._reply = reply

    async def batches(self) -> AsyncGenerator[Batch, None]:
        for batch in _Stream(self._turn, self._reply).batches():
            yield batch
            # Nothing here waits, and a long reply must not hold up everyone else's.
            await asyncio.sleep(0)


class _Stream:
    """A reply cut into tokens, up to the limit the client set."""

    def __init__(self, turn: Turn, reply: Reply) -> None:
        self._turn = turn
        self._reply = reply
        self._writer = ItemWriter(new_id)
        self._left = math.inf if turn.max_output_tokens is None else turn.max_output_tokens
        self._cut = False
        self._spoken = {"reasoning": 0, "text": 0, "call": 0}

    def batches(self) -> Iterator[list[Event]]:
        yield [Started(self._turn.model)]
        budget = (self._turn.reasoning or {}).get("max_tokens")
        for batch in self._grant("reasoning", _TOKEN.findall(self._reply.reasoning)[:budget]):
            yield [event for token in batch for event in self._writer.block("reasoning", token)]
        for batch in self._grant("text", _TOKEN.findall(self._reply.text)):
            yield [event for token in batch for event in self._writer.block("text", token, self._logprobs(token))]
        if call := self._reply.call:
            is_open = False
            for batch in self._grant("call", _TOKEN.findall(call.arguments)):
                events = [] if is_open else self._writer.call("call", name=call.name, call_id=new_id("call"))
                is_open = True
                yield events + [event for token in batch for event in self._writer.arguments("call", token)]
        yield self._end()

    def _grant(self, noun: str, tokens: list[str]) -> Iterator[list[str]]:
        """As many of the tokens as may still be spoken, a few at a time."""
        granted = tokens[: int(min(self._left, len(tokens)))]
        self._cut = self._cut or len(granted) < len(tokens)
        self._left -= len(granted)
        self._spoken[noun] += len(granted)
        for start in range(0, len(granted), _TOKENS_PER_BATCH):
            yield granted[start : start + _TOKENS_PER_BATCH]

    def _logprobs(self, token: str) -> list[Json] | None:
        """There was never a choice: each token has probability one, and no alternative."""
        if not self._turn.sampling.get("logprobs"):
            return None
        certain = {"token": token, "logprob": 0.0, "bytes": list(token.encode())}
        alternatives = [certain] if self._turn.sampling.get("top_logprobs") else []
        return [{**certain, "top_logprobs": alternatives}]

    def _end(self) -> list[Event]:
        usage = Usage(
            input=_count(self._turn),
            output=sum(self._spoken.values()),
            cache_read=0,
            cache_write=0,
            reasoning=self._spoken["reasoning"],
        )
        reason: FinishReason = "length" if self._cut else "tool_calls" if self._reply.call else "stop"
        return [*self._writer.close("incomplete" if self._cut else "completed"), Finished(reason, reason, usage)]
