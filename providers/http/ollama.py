"""A provider for Ollama. It checks turns against what `/api/show` reports about the model, because Ollama would reply
to some of them without an error, but wrongly."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from providers.base import Capabilities
from providers.errors import ContextLengthExceeded, ProviderError
from providers.http.exchange import BodyCheck, HttpProvider
from providers.http.upstream import Upstream
from translation.errors import Unrepresentable
from translation.ollama.upstream.model_details import ModelFacts, parse_model_facts
from translation.representation.json_types import Item, Json
from translation.representation.turn import Turn

_CACHE_S = 60.0

_MIN_CONTEXT_WINDOW = 2048
"""In tokens. No chat model has a smaller context window, so a lower token limit needs no check."""

_UNKNOWN_MODEL = ModelFacts(None, None, None)

_OLLAMA_CAPABILITIES = {"images": "vision", "reasoning": "thinking", "tools": "tools"}
"""Capability -> Ollama's name for it."""


class _CachedModel(NamedTuple):
    details: ModelFacts
    expires_at: float


class OllamaProvider(HttpProvider):
    """A provider for one Ollama server.

    It refuses images for models that cannot read them, because Ollama drops such images silently.
    """

    _base_url_has_version = False

    def __init__(
        self, upstream: Upstream, capabilities: Capabilities, *, show_timeout_s: float = 5.0, max_models: int = 1000
    ) -> None:
        """`show_timeout_s` limits a request to `/api/show`. `max_models` is the size of the cache of its replies."""
        super().__init__(upstream, capabilities, "ollama")
        self._model_cache: dict[str, _CachedModel] = {}
        self._show_timeout_s = show_timeout_s
        self._max_models = max_models

    async def fetch_model_details(self, model: str) -> ModelFacts:
        """Returns what `/api/show` reports about a model, at most a minute old. All facts are None if the request
        fails."""
        cached = self._model_cache.get(model)
        if cached is not None and time.monotonic() < cached.expires_at:
            return cached.details
        try:
            async with asyncio.timeout(self._show_timeout_s):
                details = parse_model_facts(await self._upstream.post_json("/api/show", {"model": model}))
        except (ProviderError, TimeoutError):
            return _UNKNOWN_MODEL  # the turn itself will fail with the actual error
        if len(self._model_cache) >= self._max_models:
            self._model_cache.clear()
        self._model_cache[model] = _CachedModel(details, time.monotonic() + _CACHE_S)
        return details

    async def fetch_model_capabilities(self, model: str, request_fields: Mapping[str, Any]) -> Mapping[str, bool | int]:
        details = await self.fetch_model_details(model)
        flags = {name: details.has_capability(ability) for name, ability in _OLLAMA_CAPABILITIES.items()}
        capabilities = {**flags, "max_context_window": details.find_context_window(request_fields.get("num_ctx"))}
        return {name: fact for name, fact in capabilities.items() if fact is not None}

    def _find_body_check(self, turn: Turn) -> BodyCheck:
        return partial(self._check_model_limits, turn.items)

    async def _check_model_limits(self, items: Sequence[Item], body: Json) -> None:
        options = body.get("options", {})
        limit = options.get("num_predict") or 0
        has_images = any("images" in message for message in body["messages"])
        if not has_images and limit < _MIN_CONTEXT_WINDOW:
            return
        details = await self.fetch_model_details(body["model"])
        if has_images and details.has_capability("vision") is False:
            raise Unrepresentable("this model does not read images: leave them out", param=_first_image_param(items))
        # If the configured window is unknown, the model's maximum is still an upper limit for it.
        window = details.find_context_window(options.get("num_ctx")) or details.max_context
        if window is not None and limit > window:
            message = f"the model's context is {window} tokens: request fewer output tokens"
            raise ContextLengthExceeded(message, provider=self.name, status=400, param="max_output_tokens")


def _first_image_param(items: Sequence[Item]) -> str:
    """Returns the path of the first image in the client's request."""
    for item_index, item in enumerate(items):
        for field in ("content", "output"):
            parts = item.get(field)
            for part_index, part in enumerate(parts if isinstance(parts, list) else ()):
                if part.get("type") == "input_image":
                    return f"input[{item_index}].{field}[{part_index}].image_url"
    return "input"
