"""The provider for the embedded demo model: deterministic, offline, with the features that a client may try first."""

import asyncio
import math
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import replace
from typing import Final

from dataplane.sharing.work_pool import run_for_count
from providers.base import Batch, Capabilities, CountMethod, Dialect, RelayExchange
from providers.config import ProviderConfig
from providers.new_id import new_id
from providers.scripted.reply import ScriptedReply, build_reply, read_input_text
from translation.lowering.unsupported import find_parameter_losses
from translation.representation.events import Event, Finished, FinishReason, Started, Usage
from translation.representation.item_writer import ItemWriter
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile, ReasoningPart
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

_TOKEN_PATTERN = re.compile(r"\s*\S{1,12}|\s+")
"""One token: up to 12 characters of a word, with the space before them."""

_CHARS_PER_VALUE = 10
"""So many characters are counted in the time in which others go through one value."""

_TOKENS_PER_BATCH = 4


class ScriptedProvider:
    """A provider without an upstream. `build_reply` determines the reply; here it becomes a stream."""

    def __init__(self, name: str, config: ProviderConfig) -> None:
        self._name = name
        self._capabilities = config.capabilities.apply_to(_CAPABILITIES)

    @property
    def name(self) -> str:
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def prepare(self, turn: Turn, profile: Profile) -> "ScriptedExchange":
        losses = find_parameter_losses(turn)
        return ScriptedExchange(turn, build_reply(turn), losses, profile.reasoning_part)

    def prepare_relay(self, dialect: Dialect, body: Json, credentials: Sequence[str] = ()) -> RelayExchange:
        raise ValueError(f"a scripted provider cannot relay the dialect {dialect}, because it has no client API")

    async def count_tokens(self, turn: Turn, profile: Profile, method: CountMethod) -> int:
        return await _count_tokens(turn)

    async def list_models(self) -> Sequence[str]:
        return ["scripted"]

    def redact(self, message: str) -> str:
        return message

    async def aclose(self) -> None:
        """Does nothing, because there is nothing to close."""


async def _count_tokens(turn: Turn) -> int:
    text = read_input_text(turn)
    return await run_for_count(len(text) // _CHARS_PER_VALUE, _count_tokens_of, text)


def _count_tokens_of(text: str) -> int:
    # One by one, because a thread that finds all of them in one call would hold the interpreter's lock.
    return sum(1 for _ in _TOKEN_PATTERN.finditer(text))


class ScriptedExchange:
    """One reply, ready to be streamed."""

    def __init__(
        self,
        turn: Turn,
        reply: ScriptedReply,
        losses: Sequence[Loss],
        reasoning_part: ReasoningPart,
        *,
        cached_tokens: int | None = 0,
    ) -> None:
        """`cached_tokens` is reported as the part of the prompt that was in a cache; None reports none."""
        self.losses: Final = losses
        self._cached_tokens = cached_tokens
        self._reasoning_part = reasoning_part
        self._turn = turn
        self._reply = reply

    async def batches(self) -> AsyncGenerator[Batch, None]:
        usage = Usage(input=await _count_tokens(self._turn), cache_read=self._cached_tokens, cache_write=0)
        tokens = _TokenStream(self._turn, self._reply, self._reasoning_part, usage)
        for batch in tokens.batches():
            yield batch
            # Let other tasks run: nothing else here waits, and a long reply would block the others.
            await asyncio.sleep(0)


class _TokenStream:
    """Cuts a reply into tokens, up to the client's limits."""

    def __init__(self, turn: Turn, reply: ScriptedReply, reasoning_part: ReasoningPart, usage: Usage) -> None:
        """`usage` is that of the input."""
        self._usage = usage
        self._turn = turn
        self._reply = reply
        self._reasoning_kind = "summary" if reasoning_part == "summary_text" else "reasoning"
        self._writer = ItemWriter(new_id)
        self._tokens_left = math.inf if turn.max_output_tokens is None else turn.max_output_tokens
        self._is_truncated = False
        self._token_counts = {"reasoning": 0, "text": 0, "call": 0}

    def batches(self) -> Iterator[list[Event]]:
        yield [Started(self._turn.model)]
        budget = (self._turn.reasoning or {}).get("max_tokens")
        for batch in self._batch_tokens("reasoning", _TOKEN_PATTERN.findall(self._reply.reasoning)[:budget]):
            yield [event for token in batch for event in self._writer.write_block(self._reasoning_kind, token)]
        for batch in self._batch_tokens("text", _TOKEN_PATTERN.findall(self._reply.text)):
            for token in batch:
                self._writer.add_logprobs(self._logprobs(token))
            yield [event for token in batch for event in self._writer.write_block("text", token)]
        if call := self._reply.call:
            is_open = False
            for batch in self._batch_tokens("call", _TOKEN_PATTERN.findall(call.arguments)):
                events = [] if is_open else self._writer.open_call("call", name=call.name, call_id=new_id("call"))
                is_open = True
                yield events + [event for token in batch for event in self._writer.write_arguments("call", token)]
        yield self._end_events()

    def _batch_tokens(self, channel: str, tokens: list[str]) -> Iterator[list[str]]:
        """Yields the tokens that are within the limit, a few at a time, and counts them."""
        allowed_tokens = tokens[: int(min(self._tokens_left, len(tokens)))]
        self._is_truncated = self._is_truncated or len(allowed_tokens) < len(tokens)
        self._tokens_left -= len(allowed_tokens)
        self._token_counts[channel] += len(allowed_tokens)
        for start in range(0, len(allowed_tokens), _TOKENS_PER_BATCH):
            yield allowed_tokens[start : start + _TOKENS_PER_BATCH]

    def _logprobs(self, token: str) -> list[Json] | None:
        """Returns the log probability of a token. Each has probability one and no other alternative, because the reply
        is fixed."""
        if not self._turn.sampling.get("logprobs"):
            return None
        certain = {"token": token, "logprob": 0.0, "bytes": list(token.encode())}
        alternatives = [certain] if self._turn.sampling.get("top_logprobs") else []
        return [{**certain, "top_logprobs": alternatives}]

    def _end_events(self) -> list[Event]:
        counts = self._token_counts
        usage = replace(self._usage, output=sum(counts.values()), reasoning=counts["reasoning"])
        reason: FinishReason = "length" if self._is_truncated else "tool_calls" if self._reply.call else "stop"
        return [
            *self._writer.close("incomplete" if self._is_truncated else "completed"),
            Finished(reason, reason, usage),
        ]
