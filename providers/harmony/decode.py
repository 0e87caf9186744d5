"""Decodes replies of llama-server's `/completion` to events: the chunks of a stream, or one object.

https://github.com/ggml-org/llama.cpp/tree/master/tools/server
"""

from typing import Any

from providers.harmony.encoding import Encoding
from providers.harmony.token_decoder import HarmonyTokenDecoder
from translation.chat.upstream.chat_failures import failure_in
from translation.decoding.chunk_decoder import ChunkDecoder
from translation.decoding.usage import read_count
from translation.errors import ProtocolViolation
from translation.representation.events import (
    STOP_SEQUENCE_FACT,
    Event,
    Failed,
    Finished,
    FinishReason,
    Noted,
    Started,
    Usage,
)
from translation.representation.json_types import Json


class HarmonyDecoder(ChunkDecoder):
    """Decodes one reply. Call `feed` with every chunk, then `finish`. Chunks after the end are ignored.

    Raises ProtocolViolation for a chunk that is not a completion with its tokens. A reply that breaks off ends in
    Failed.
    """

    def __init__(self, encoding: Encoding, token_decoder: HarmonyTokenDecoder, prompt_tokens: int) -> None:
        """`prompt_tokens` is the number of tokens of the prompt."""
        self.usage: Usage | None = None
        self._encoding = encoding
        self._token_decoder = token_decoder
        self._prompt_tokens = prompt_tokens
        self._generated_tokens = 0
        self._started = False

    def feed(self, chunk: Json) -> list[Event]:
        if self.ended:
            return []
        if not isinstance(chunk, dict):
            raise ProtocolViolation("the upstream sent something that is not a JSON object")
        if (failed := failure_in(chunk)) is not None:
            self.ended = True
            return [failed]
        events: list[Event] = []
        if not self._started:
            self._started = True
            events.append(Started(model=str(chunk.get("model") or "")))
        was_over = self._token_decoder.ended
        tokens = self._read_tokens(chunk)
        for token in tokens:
            events += self._token_decoder.feed(token)
        is_last = chunk.get("stop") is True
        if is_last or (tokens and self._token_decoder.ended and (was_over or not self._expects_end(tokens[-1]))):
            events += self._build_end_events(chunk)
        return events

    def finish(self) -> list[Event]:
        """Ends the reply. Returns Failed if the upstream closed the stream before its last chunk."""
        if self.ended:
            return []
        self.ended = True
        return [Failed("upstream_truncated", "the upstream's reply broke off before it was finished")]

    def _expects_end(self, token: int) -> bool:
        """Whether the server ends the reply at this token by itself, with a last chunk that has the usage."""
        return token in (self._encoding.control_tokens.returns, self._encoding.control_tokens.call)

    def _read_tokens(self, chunk: Json) -> list[int]:
        """Returns all tokens of a chunk. The server's stream omits tokens that end in the middle of a character. They
        are recovered by encoding the text."""
        tokens = chunk.get("tokens", [])
        text = chunk.get("content")
        if not isinstance(text, str) or not _are_token_ids(tokens):
            raise ProtocolViolation("the upstream sent a JSON object that is not a completion with tokens")
        if not tokens and text:
            raise ProtocolViolation("the upstream sent text without its tokens: this provider needs a llama-server")
        predicted = read_count(chunk.get("tokens_predicted"))
        missing = 0 if predicted is None else predicted - self._generated_tokens - len(tokens)
        self._generated_tokens = (
            self._generated_tokens + len(tokens) if predicted is None else max(predicted, self._generated_tokens)
        )
        if missing <= 0 or not tokens or any(map(self._encoding.is_special, tokens)):
            return list(tokens)
        return self._encoding.encode(text)

    def _build_end_events(self, chunk: Json) -> list[Event]:
        self.ended = True
        is_cut = chunk.get("stop_type") == "limit" and not self._token_decoder.ended
        events = self._token_decoder.finish("incomplete" if is_cut else "completed")
        if not is_cut and self._token_decoder.has_lost_message:
            return [Failed("upstream_garbled", "the model began a message but wrote none")]
        if (stop := self._token_decoder.stop_string) is not None:
            events.append(Noted(facts={STOP_SEQUENCE_FACT: stop}))
        timings, evaluated = chunk.get("timings"), read_count(chunk.get("tokens_evaluated"))
        prompt = self._prompt_tokens if evaluated is None else evaluated
        cached = read_count(timings.get("cache_n")) if isinstance(timings, dict) else None
        self.usage = Usage(
            input=prompt,
            output=self._generated_tokens,
            cache_read=None if cached is None else min(cached, prompt),
            reasoning=min(self._token_decoder.reasoning_tokens, self._generated_tokens),
        )
        reason: FinishReason = "length" if is_cut else "tool_calls" if self._token_decoder.has_called else "stop"
        stop_type = chunk.get("stop_type")
        return [*events, Finished(reason, stop_type if isinstance(stop_type, str) else None, self.usage)]


def _are_token_ids(tokens: Any) -> bool:
    return isinstance(tokens, list) and all(isinstance(token, int) and 0 <= token < 1 << 31 for token in tokens)
