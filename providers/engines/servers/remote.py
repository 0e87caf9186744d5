"""The base class of engines behind HTTP: their requests, and a cache of facts about a model."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

import orjson

from providers.engines.base import EngineDelta, GenerationRequest, TokenPrompt
from providers.errors import UpstreamBroken, UpstreamGarbled, UpstreamRejected
from providers.http.upstream import Upstream
from translation.decoding.surrogates import SurrogateJoiner
from translation.errors import ProtocolViolation, Unrepresentable
from translation.framing.sse import DONE_PAYLOAD, FrameDecoder
from translation.representation.json_types import Json

_CACHE_S: Final = 60.0
"""The seconds for which a fact about a model is cached. A restarted server may have another model by the same name."""

_MAX_CACHED_CHARS: Final = 200
_MAX_CACHE_ENTRIES: Final = 1000

_PROBE_MESSAGES: Final = [{"role": "user", "content": "Hi"}]
_PROBE_TOOL: Final = {
    "type": "function",
    "function": {"name": "probe", "description": "Nothing.", "parameters": {"type": "object", "properties": {}}},
}


class ModelCache:
    """Cached facts about one model. The engines of all its turns share them."""

    def __init__(self) -> None:
        self.context_window: int | None = None
        """The context window does not expire, because an old number is better than none."""
        self._entries: dict[str, tuple[float, Any]] = {}

    def get(self, name: str) -> Any:
        """Returns a cached value; None if there is none or it has expired."""
        expires_at, value = self._entries.get(name, (0.0, None))
        return value if _now() < expires_at else None

    def put(self, name: str, value: Any) -> None:
        """Caches a value for a minute. A full cache is emptied first."""
        if len(self._entries) >= _MAX_CACHE_ENTRIES:
            self._entries.clear()
        self._entries[name] = (_now() + _CACHE_S, value)


def refuse_media(chat: Json) -> None:
    """Raises Unrepresentable if a chat body has content other than text, because a prompt of token ids cannot contain
    it."""
    for message in chat["messages"]:
        content = message.get("content")
        kinds = [part["type"] for part in content if part["type"] != "text"] if isinstance(content, list) else []
        if kinds:
            error_message = (
                f"this model thinks in two passes, which do not support {kinds[0]}: "
                "send `thinking: false`, or leave it out"
            )
            raise Unrepresentable(error_message, param="input")


class RemoteEngine(ABC):
    """One model of a server. The server renders and tokenises; the gateway does neither."""

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
            # Some servers refuse tools that their template does not support. Any other error says nothing about tools.
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
        """Sends a body and yields the JSON objects of the stream, up to its end or [DONE].

        Raises ProviderError, also for an error object in the stream. Closing the generator closes the connection,
        unless the whole stream was read.
        """
        reply = await self._upstream.post(path, body, stream=True, at_root=at_root)
        frames = FrameDecoder(self._upstream.max_frame_bytes)
        characters = SurrogateJoiner()
        whole = False
        try:
            if reply.content_type != "text/event-stream":
                raise self.build_garbled_error("the engine's reply is not a stream")
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
                    yield self._parse_chunk(characters.rewrite(payload))
            whole = True
        except ProtocolViolation as violation:
            raise self.build_garbled_error(str(violation)) from violation
        finally:
            await reply.close(whole=whole)

    def _parse_chunk(self, payload: bytes) -> Json:
        try:
            chunk = orjson.loads(payload)
        except orjson.JSONDecodeError as error:
            raise self.build_garbled_error("an event of the engine's stream is not JSON") from error
        if not isinstance(chunk, dict):
            raise self.build_garbled_error("an event of the engine's stream is not a JSON object")
        if (rejection := self._upstream.find_error(chunk)) is not None:
            raise rejection
        return chunk

    def parse_tokens(self, reply: Json) -> list[int]:
        """Returns the token ids in `tokens` of a reply. Raises UpstreamGarbled if there are none."""
        tokens = reply.get("tokens")
        if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
            raise self.build_garbled_error("the engine's tokens are not numbers")
        return tokens

    def parse_text(self, reply: Json, name: str) -> str:
        """Returns the text of a reply's field. Raises UpstreamGarbled if it is missing."""
        text = reply.get(name)
        if not isinstance(text, str):
            raise self.build_garbled_error(f"the engine's reply has no {name}")
        return text

    def build_broken_error(self) -> UpstreamBroken:
        """Returns the error for a stream that ends without its last chunk."""
        return UpstreamBroken("the engine broke off its reply", provider=self._upstream.name)

    def build_garbled_error(self, message: str) -> UpstreamGarbled:
        """Returns the error for a reply that does not follow the protocol."""
        return UpstreamGarbled(message, provider=self._upstream.name)


def _now() -> float:
    return asyncio.get_running_loop().time()
