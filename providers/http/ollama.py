"""A server of Ollama's: what it says of a model is held against a turn that it would otherwise answer wrongly."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from providers.base import Capabilities
from providers.errors import ContextLengthExceeded, ProviderError
from providers.http.exchange import Check, WireProvider
from providers.http.upstream import Upstream
from translation.errors import Unrepresentable
from translation.ollama.model_details import Shown, read_shown
from translation.representation.json_types import Item, Json
from translation.representation.turn import Turn

_FRESH_S = 60.0

_SMALLEST_WINDOW = 2048
"""Tokens: no model that chats has less, so that shorter answers need not be held against its context."""

_UNKNOWN = Shown(None, None, None)

_ABILITIES = {"images": "vision", "reasoning": "thinking", "tools": "tools"}
"""Capability -> what Ollama calls it."""


class _Kept(NamedTuple):
    shown: Shown
    until: float


class OllamaProvider(WireProvider):
    """Ollama leaves images out for models that see none, and says nothing: so such turns are refused."""

    def __init__(
        self, upstream: Upstream, capabilities: Capabilities, *, show_s: float = 5.0, most_models: int = 1000
    ) -> None:
        """`show_s`: how long a server may take to show a model. `most_models`: how many are remembered."""
        super().__init__(upstream, capabilities, "ollama")
        self._kept: dict[str, _Kept] = {}
        self._show_s = show_s
        self._most_models = most_models

    async def shown(self, model: str) -> Shown:
        """What the server shows of a model, at most a minute old; nothing where it cannot be asked."""
        kept = self._kept.get(model)
        if kept is not None and time.monotonic() < kept.until:
            return kept.shown
        try:
            async with asyncio.timeout(self._show_s):
                shown = read_shown(await self._upstream.ask("/api/show", {"model": model}))
        except (ProviderError, TimeoutError):
            return _UNKNOWN  # the turn itself will tell what is wrong
        if len(self._kept) >= self._most_models:
            self._kept.clear()
        self._kept[model] = _Kept(shown, time.monotonic() + _FRESH_S)
        return shown

    async def described(self, model: str, asked: Mapping[str, Any]) -> Mapping[str, bool | int]:
        shown = await self.shown(model)
        told = {name: shown.can(ability) for name, ability in _ABILITIES.items()}
        told_all = {**told, "max_context_window": shown.window_of(asked.get("num_ctx"))}
        return {name: fact for name, fact in told_all.items() if fact is not None}

    def _check_of(self, turn: Turn) -> Check:
        return partial(self._hold_against_model, turn.items)

    async def _hold_against_model(self, items: Sequence[Item], body: Json) -> None:
        options = body.get("options", {})
        limit = options.get("num_predict") or 0
        has_images = any("images" in message for message in body["messages"])
        if not has_images and limit < _SMALLEST_WINDOW:
            return
        shown = await self.shown(body["model"])
        if has_images and shown.can("vision") is False:
            raise Unrepresentable("this model does not read images: leave them out", param=_first_image(items))
        # Of what its server gives it only this is known: that it is no more than it was made for.
        window = shown.window_of(options.get("num_ctx")) or shown.longest
        if window is not None and limit > window:
            told = f"the model's context is {window} tokens: ask for fewer"
            raise ContextLengthExceeded(told, provider=self.name, status=400)


def _first_image(items: Sequence[Item]) -> str:
    """Where a client finds it."""
    for place, item in enumerate(items):
        for field in ("content", "output"):
            parts = item.get(field)
            for number, part in enumerate(parts if isinstance(parts, list) else ()):
                if part.get("type") == "input_image":
                    return f"input[{place}].{field}[{number}].image_url"
    return "input"
