"""A provider for vLLM's server, which reports the context window of its models."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

from providers.base import Capabilities, WireDialect
from providers.engines.servers.provider import TwoPassProvider
from providers.engines.servers.vllm_server import VllmServerEngine
from providers.errors import ProviderError
from providers.http.upstream import Upstream
from translation.representation.json_types import Json

_CACHE_S: Final = 60.0
"""The seconds for which the list of models is cached. A restarted server may have another context window."""

_LIST_TIMEOUT_S: Final = 5.0


class VllmServerProvider(TwoPassProvider):
    """A provider for one vLLM server. Errors about prompts that are too long name the context window."""

    def __init__(self, upstream: Upstream, capabilities: Capabilities, dialect: WireDialect) -> None:
        super().__init__(upstream, capabilities, dialect, VllmServerEngine)
        self._windows: Mapping[str, int] = {}
        self._windows_expire_at = 0.0
        upstream.find_context_window = self.find_context_window

    async def find_context_window(self, model: str) -> int | None:
        """Returns the context window of a model in tokens, at most a minute old, or None if the server does not report
        it. If the request fails, an older number is returned."""
        if self.capabilities.max_context_window is not None:
            return self.capabilities.max_context_window
        if time.monotonic() >= self._windows_expire_at:
            self._windows_expire_at = time.monotonic() + _CACHE_S
            try:
                async with asyncio.timeout(_LIST_TIMEOUT_S):
                    self._windows = _parse_context_windows(await self._upstream.get_json("/models"))
            except (ProviderError, TimeoutError):
                self._windows_expire_at = 0.0
        return self._windows.get(model)

    async def fetch_model_capabilities(self, model: str, request_fields: Mapping[str, Any]) -> Mapping[str, bool | int]:
        window = await self.find_context_window(model)
        return {} if window is None else {"max_context_window": window}


def _parse_context_windows(answer: Json) -> dict[str, int]:
    """Returns model name -> context window in tokens, from the reply of `/v1/models`.

    `max_model_len` is vLLM's own field. The row of a LoRA adapter has the name of its base model in `parent` instead.
    """
    rows = answer.get("data")
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    windows: dict[str, int] = {}
    # Base models come first, because an adapter has the window of its base model.
    for row in sorted(rows, key=lambda row: row.get("parent") is not None):
        name, window = row.get("id"), row.get("max_model_len")
        if window is None:
            window = windows.get(str(row.get("parent")))
        if isinstance(name, str) and isinstance(window, int) and window > 0:
            windows[name] = window
    return windows
