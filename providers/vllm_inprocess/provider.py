"""The adapter for vLLM in this process."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from providers.base import Capabilities, Condition, Counting, Dialect, Exchange, RelayExchange
from providers.config import ProviderConfig
from providers.egress import Egress
from providers.engines.exchange import counted, generated
from providers.engines.supervisor import Progress, Supervisor
from providers.vllm_inprocess.lifecycle import Started, started
from translation.errors import Unrepresentable
from translation.representation.json_types import Json
from translation.representation.profile import Profile
from translation.representation.turn import Turn

_CAPABILITIES = Capabilities(
    streaming=True,
    tools=True,
    parallel_tools=True,
    reasoning=True,
    json_schema=True,
    logprobs=True,
    models=True,
    two_pass=True,
    counting="template",
)


class VllmProvider:
    """A `Provider` and a `Host`. While the engine is not up, everything that needs it raises EngineUnavailable."""

    def __init__(self, name: str, config: ProviderConfig, egress: Egress) -> None:
        """`egress` fetches the images of requests."""
        self._name = name
        self._config = config
        self._egress = egress
        self._capabilities = _capabilities(config)
        self._supervisor = Supervisor(name, self._start)

    @property
    def name(self) -> str:
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def condition(self) -> Condition:
        condition = self._supervisor.condition
        return replace(condition, running=self._supervisor.engine.running) if condition.state == "ready" else condition

    def running(self) -> AbstractAsyncContextManager[None]:
        return self._supervisor.running()

    async def settled(self) -> None:
        await self._supervisor.settled()

    def prepare(self, turn: Turn, profile: Profile) -> Exchange:
        engine, parsers = self._supervisor.engine.serving(turn, profile)
        return generated(engine, turn, profile, parsers)

    def relay(self, dialect: Dialect, body: Json) -> RelayExchange:
        raise ValueError(f"an engine speaks no dialect, so not {dialect}")

    async def count(self, turn: Turn, profile: Profile, way: Counting) -> int:
        if way not in ("template", "tokenize"):
            raise Unrepresentable(f"an engine in this process counts by its template, not by {way!r}", param=None)
        engine, parsers = self._supervisor.engine.serving(turn, profile)
        return await counted(engine, turn, profile, parsers)

    async def models(self) -> Sequence[str]:
        return self._supervisor.engine.models

    def scrub(self, message: str) -> str:
        return message

    async def aclose(self) -> None:
        """There is nothing left to close once `running` has ended."""

    @asynccontextmanager
    async def _start(self, progress: Progress) -> AsyncGenerator[Started, None]:
        async with started(self._name, self._config, self._egress, progress) as engine:
            yield engine


def _capabilities(config: ProviderConfig) -> Capabilities:
    """What the model's folder and the engine's arguments tell of it before it is loaded."""
    window = config.engine.get("max_model_len")
    known = replace(
        _CAPABILITIES,
        images=_may_see(Path(config.model or "")),
        max_context_window=window if isinstance(window, int) and window > 0 else None,
    )
    return replace(known, **config.capabilities.given())


def _may_see(folder: Path) -> bool:
    """Whether the model may read images. Of one that is still on the hub nothing is known: it says so itself."""
    try:
        described = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        return True
    return not isinstance(described, dict) or "vision_config" in described
