"""The provider for vLLM in this process."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from providers.base import Capabilities, CountMethod, Dialect, Exchange, RelayExchange
from providers.config import ProviderConfig
from providers.egress import EgressClient
from providers.engines.embedded_provider import EmbeddedEngineProvider
from providers.engines.exchange import count_prompt_tokens, prepare_engine_exchange
from providers.engines.supervisor import ProgressReporter
from providers.vllm_inprocess.lifecycle import RunningEngine, run_engine
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
    input_grammars=True,
    counting="template",
)


class VllmProvider(EmbeddedEngineProvider[RunningEngine]):
    """A `Provider` and an `EngineHost`. While the engine is not up, methods that need it raise EngineUnavailable."""

    def __init__(self, name: str, config: ProviderConfig, egress: EgressClient) -> None:
        """`egress` fetches images by the URLs in requests."""
        self._config = config
        self._egress = egress
        super().__init__(name, _build_capabilities(config))

    def prepare(self, turn: Turn, profile: Profile) -> Exchange:
        engine, parsers = self._supervisor.engine.select_engine(turn, profile)
        return prepare_engine_exchange(engine, turn, profile, parsers)

    def prepare_relay(self, dialect: Dialect, body: Json, credentials: Sequence[str] = ()) -> RelayExchange:
        raise ValueError(f"an engine cannot relay the dialect {dialect}, because it has no client API")

    async def count_tokens(self, turn: Turn, profile: Profile, method: CountMethod) -> int:
        if method not in ("template", "tokenize"):
            raise Unrepresentable(
                f"an engine in this process counts tokens by its chat template, not by {method!r}", param=None
            )
        engine, parsers = self._supervisor.engine.select_engine(turn, profile)
        return await count_prompt_tokens(engine, turn, profile, parsers)

    async def list_models(self) -> Sequence[str]:
        return self._supervisor.engine.models

    def redact(self, message: str) -> str:
        return message

    @asynccontextmanager
    async def _start(self, progress: ProgressReporter) -> AsyncGenerator[RunningEngine, None]:
        async with run_engine(self._name, self._config, self._egress, progress) as engine:
            yield engine


def _build_capabilities(config: ProviderConfig) -> Capabilities:
    """Returns the capabilities that follow from the model's folder and the engine's arguments, before the model is
    loaded."""
    window = config.engine.get("max_model_len")
    capabilities = replace(
        _CAPABILITIES,
        images=_may_read_images(Path(config.model or "")),
        max_context_window=window if isinstance(window, int) and window > 0 else None,
    )
    return config.capabilities.apply_to(capabilities)


def _may_read_images(folder: Path) -> bool:
    """Whether the model may read images. True if nothing is known about the model, for example because it is still on
    the hub; then the engine refuses images that it cannot read."""
    try:
        model_config = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        return True
    return not isinstance(model_config, dict) or "vision_config" in model_config
