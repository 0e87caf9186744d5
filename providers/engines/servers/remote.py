"""What engines behind HTTP have in common: how they are asked, and what is remembered of them."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

import orjson

from providers.engines.base import EngineDelta, GenerationRequest, TokenPrompt
from providers.errors import UpstreamBroken, UpstreamGarbled, UpstreamRejected
from providers.http.upstream import Upstream
from translation.errors import ProtocolViolation, Unrepresentable
from translation.framing.sse import DONE_PAYLOAD, FrameDecoder
from translation.representation.json_types import Json

_CACHE_S: Final = 60.0
"""How long an answer about the model is taken for true: a server may come back with another one by the same name."""

_MAX_CACHED_CHARS: Final = 200
_MAX_CACHE_ENTRIES: Final = 1000

_PROBE_MESSAGES: Final = [{"role": "user", "content": "Hi"}]
_PROBE_TOOL: Final = {
    "type": "function",
    "function": {"name": "probe", "description": "Nothing.", "parameters": {"type": "object", "properties": {}}},
}


class ModelCache:
    """What was learnt of one model a moment ago. Shared by the engines that are made for its turns."""

    def __init__(self) -> None:
        self.context_window: int | None = None
        """Not forgotten: a number that is a minute old is better than none."""
        self._entries: dict[str, tuple[float, Any]] = {}

    def get(self, name: str) -> Any:
        until, value = self._entries.get(name, (0.0, None))
        return value if _now() < until else None

    def put(self, name: str, value: Any) -> None:
        if len(self._entries) >= _MAX_CACHE_ENTRIES:
            self._entries.clear()
        self._entries[name] = (_now() + _CACHE_S, value)


def reject_media(chat: Json) -> None:
    """Raises Unrepresentable: what is not text has no place in a prompt of token ids."""
    for message in chat["messages"]:
        content = message.get("content")
        kinds = [part["type"] for part in content if part["type"] != "text"] if isinstance(content, list) else []
        if kinds:
            message_text = (
                f"this model thinks in two passes, and its server takes no {kinds[0]} then; send thinking: false"
            )
            raise Unrepresentable(message_text, param="input")


class RemoteEngine(ABC):
    """One model of a server. The server says what it is asked; nothing is tokenised or rendered here."""

    supported_parameters: frozenset[str] = frozenset()

    def __init__(self, upstream: Upstream, cache: ModelCache) -> None:
        self._upstream = upstream
        self._cache = cache

    @property
    def context_window(self) -> int | None:
        return self._cache.context_window

    @abstractmethod
    async def render(self, chat: Json) -> TokenPrompt: ...

    @abstractmethod
    async def decode(self, tokens: Sequence[int]) -> str: ...

    @abstractmethod
    def generate(self, prompt: TokenPrompt, request: GenerationRequest) -> AsyncGenerator[EngineDelta, None]: ...

    @abstractmethod
    async def _tokenize_text(self, text: str) -> list[int]: ...

    async def renders_tools(self) -> bool:
        known: bool | None = self._cache.get("tools")
        if known is None:
            known = await self._probe_tools()
            self._cache.put("tools", known)
        return known

    async def _probe_tools(self) -> bool:
        plain = await self.render({"messages": _PROBE_MESSAGES})
        try:
            rendered = await self.render({"messages": _PROBE_MESSAGES, "tools": [_PROBE_TOOL]})
        except UpstreamRejected as refusal:
            # Some servers refuse tools that their template does not know; anything else that went wrong is no answer.
            if type(refusal) is not UpstreamRejected:
                raise
            return False
        return list(rendered.tokens) != list(plain.tokens)

    async def encode(self, text: str) -> Sequence[int]:
        if not text:
            return []
        if len(text) > _MAX_CACHED_CHARS:
            return await self._tokenize_text(text)
        name = f"text {text}"
        tokens: list[int] | None = self._cache.get(name)
        if tokens is None:
            tokens = await self._tokenize_text(text)
            self._cache.put(name, tokens)
        return tokens

    async def _stream_chunks(self, path: str, body: Json, *, at_root: bool) -> AsyncGenerator[Json, None]:
        """The JSON objects of a stream, up to its end or [DONE]. Raises ProviderError, also for an object that is one.

        Closing it hangs up, unless all of the stream was read.
        """
        reply = await self._upstream.post(path, body, stream=True, at_root=at_root)
        frames = FrameDecoder(self._upstream.max_frame_bytes)
        whole = False
        try:
            if reply.content_type != "text/event-stream":
                raise self.garbled_error("the engine did not answer with a stream")
            while not reply.ended and not whole:
                read = reply.take()
                if not read:
                    if not reply.ended:
                        await reply.wait_for_read()
                    continue
                for payload in frames.parse_payloads(read):
                    if payload == DONE_PAYLOAD:
                        whole = True
                        return
                    yield self._parse_chunk(payload)
            whole = True
        except ProtocolViolation as violation:
            raise self.garbled_error(str(violation)) from violation
        finally:
            await reply.close(whole=whole)

    def _parse_chunk(self, payload: bytes) -> Json:
        try:
            chunk = orjson.loads(payload)
        except orjson.JSONDecodeError as error:
            raise self.garbled_error("an event of the engine's stream is not JSON") from error
        if not isinstance(chunk, dict):
            raise self.garbled_error("an event of the engine's stream is not a JSON object")
        if (rejection := self._upstream.error_in_body(chunk)) is not None:
            raise rejection
        return chunk

    def parse_tokens(self, answer: Json) -> list[int]:
        """The token ids an answer lists. Raises UpstreamGarbled."""
        tokens = answer.get("tokens")
        if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
            raise self.garbled_error("the engine's tokens are no numbers")
        return tokens

    def parse_text(self, answer: Json, name: str) -> str:
        """A text of an answer. Raises UpstreamGarbled."""
        text = answer.get(name)
        if not isinstance(text, str):
            raise self.garbled_error(f"the engine's answer has no {name}")
        return text

    def broken_error(self) -> UpstreamBroken:
        return UpstreamBroken("the engine broke off its answer", provider=self._upstream.name)

    def garbled_error(self, message: str) -> UpstreamGarbled:
        return UpstreamGarbled(message, provider=self._upstream.name)


def _now() -> float:
    return asyncio.get_running_loop().time()
