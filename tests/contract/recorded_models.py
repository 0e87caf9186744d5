"""A gateway without sockets: models that replay recordings, and one model of every provider type."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from gateway.config.settings import Settings
from gateway.dialects.chat.endpoint import CHAT
from gateway.dialects.responses.endpoint import RESPONSES
from gateway.http.auth import ANONYMOUS
from gateway.http.guard import DrainState
from gateway.replies.event_stream import ReplyStream
from gateway.service.admission import ClientRequest
from gateway.service.run import Run
from gateway.service.service import Service
from providers.base import Batch, Capabilities, CountMethod, Dialect, Exchange, Provider, RelayExchange
from providers.capabilities import CAPABILITIES
from providers.config import EMBEDDED_TYPES, PROVIDER_DEFAULTS, ProviderConfig
from providers.engines.exchange import prepare_engine_exchange
from providers.http.dialects import DIALECTS
from providers.http.exchange import HttpExchange
from providers.http.relay import HttpRelay
from providers.profiles import PROFILES
from providers.registry import build_provider
from providers.scripted.provider import ScriptedExchange
from tests.unit.support.fake_engine import FakeEngine
from tests.unit.support.golden import GOLDEN, chunks_of
from tests.unit.support.harmony import lower_to_harmony, real
from tests.unit.support.recorded_replies import decode_recording
from translation.representation.events import Event
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

RECORDINGS = {
    path: path.with_suffix(".events").read_text()
    for path in sorted(GOLDEN.glob("*/*"))
    if path.suffix in (".sse", ".ndjson")
}
"""Every stream of every dialect, and of engines, with what it is understood as."""

FAILED = [path for path, events in RECORDINGS.items() if "\nFailed(" in events and "ItemStarted(" in events]
"""Streams that broke off in the middle of an answer."""

ANSWERS = [path for path, events in RECORDINGS.items() if "Failed(" not in events]

ENGINES = sorted(EMBEDDED_TYPES - {"scripted"})
"""Types that write with an engine of the gateway's."""


def events_of(recording: Path) -> list[Event]:
    """Returns the events of a recorded stream."""
    return [event for batch in decode_recording(recording, PROFILES["openai_compatible"]) for event in batch]


ENDPOINTS = {"chat": CHAT, "responses": RESPONSES}


class Source:
    """A provider whose models are the recordings: each replays its recording, and gets requests in its own dialect."""

    name = "source"
    capabilities: Capabilities = CAPABILITIES["openai_compatible"]

    def prepare(self, turn: Turn, profile: Profile) -> Exchange:
        recording = GOLDEN / turn.model
        if turn.items[-1] == turn.items[0]:
            return RecordedTurn(events_of(recording))
        dialect = recording.parent.name
        if dialect == "completion":
            return _generated(turn, profile)
        lower = lower_to_harmony if dialect == "harmony" else DIALECTS[dialect].lower  # type: ignore[index]
        body = lower(turn, profile).body
        return RecordedTurn([], {"prompt": real().decode(body["prompt"])} if dialect == "harmony" else body)

    def prepare_relay(self, dialect: Dialect, body: Json, credentials: Sequence[str] = ()) -> RelayExchange:
        raise AssertionError("what is recorded is translated")

    async def count_tokens(self, turn: Turn, profile: Profile, method: CountMethod) -> int:
        raise AssertionError("nobody counts")

    async def list_models(self) -> Sequence[str]:
        return []

    def redact(self, message: str) -> str:
        return message

    async def aclose(self) -> None: ...


@dataclass
class RecordedTurn:
    """A turn that is answered with these events."""

    events: list[Event]
    body: Json | None = None
    losses: Sequence[Loss] = ()

    async def batches(self) -> AsyncGenerator[Batch, None]:
        yield self.events


@dataclass
class Relayed:
    """A request of a client that is passed on, and not answered."""

    body: Json
    losses: Sequence[Loss] = ()

    async def reads(self) -> AsyncGenerator[bytes, None]:
        yield b""

    async def fetch_body(self) -> Json | bytes:
        return b""


class Embedded(Source):
    """A provider of an engine in this process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.capabilities = build_provider(
            name, ProviderConfig.model_validate({"type": name} | ({} if name == "demo" else {"model": "m"}))
        ).capabilities

    def prepare(self, turn: Turn, profile: Profile) -> Exchange:
        return _generated(turn, profile)

    def prepare_relay(self, dialect: Dialect, body: Json, credentials: Sequence[str] = ()) -> RelayExchange:
        return Relayed(body)


def _generated(turn: Turn, profile: Profile) -> Exchange:
    return prepare_engine_exchange(FakeEngine(["Yes.", "Yes."]), turn, profile)


TARGETS: dict[str, dict[str, Any]] = {
    **{
        kind: {"type": kind, "base_url": "http://127.0.0.1:9/v1"}
        for kind in PROVIDER_DEFAULTS
        if kind not in EMBEDDED_TYPES
    },
    **{
        kind: {"type": kind} if kind in ("demo", "scripted") else {"type": kind, "model": "m"}
        for kind in sorted(EMBEDDED_TYPES)
    },
    "openai, chat": {"type": "openai", "base_url": "http://127.0.0.1:9/v1", "dialects": ["chat"]},
    "openai, Responses": {"type": "openai", "base_url": "http://127.0.0.1:9/v1", "dialects": ["responses"]},
}
"""The configuration of a provider of every type, and of openai with each of its APIs."""


def build_target(name: str) -> Provider:
    if TARGETS[name]["type"] in ENGINES:
        return Embedded(name)
    return build_provider(name, ProviderConfig.model_validate(TARGETS[name]))


class Gateway:
    """The recordings are its models by their places under `golden`, and there is a model for each target."""

    def __init__(self) -> None:
        config = {
            "store": {"url": None},
            "providers": {"source": TARGETS["openai_compatible"], **TARGETS},
            "models": {**{name: {"provider": name} for name in TARGETS}, "*": {"provider": "source"}},
        }
        self._providers: dict[str, Provider] = {"source": Source(), **{name: build_target(name) for name in TARGETS}}
        self._service = Service(Settings.model_validate(config), self._providers, DrainState())

    async def aclose(self) -> None:
        for provider in self._providers.values():
            await provider.aclose()

    async def accept(self, api: str, **body: Any) -> Run:
        """The request, accepted by the whole gateway and lowered, but not sent. Raises what it is refused with."""
        return await self._service.accept(ClientRequest(ENDPOINTS[api], ANONYMOUS, body))

    async def fetch_reply(self, api: str, **body: Any) -> Json:
        """The answer to a request."""
        return await (await self.accept(api, **body)).produce_reply()

    async def stream(self, **body: Any) -> Json:
        """The response of the last event."""
        opened = await self.accept("responses", stream=True, **body)
        response: Json = chunks_of(await _read(opened.build_stream()))[-1]["response"]
        return response


async def _read(wire: ReplyStream) -> bytes:
    async with aclosing(wire.frames()) as frames:
        return b"".join([each async for each in frames]) + wire.conclude()


async def sent(opened: Run) -> bytes:
    """Returns the upstream request as JSON; for a prompt in tokens, its text; empty if nothing is sent."""
    exchange: Any = opened.plan.exchange
    if isinstance(exchange, ScriptedExchange):
        return b""
    if isinstance(exchange, RecordedTurn | Relayed):
        return orjson.dumps(exchange.body)
    if isinstance(exchange, HttpExchange | HttpRelay):
        body = exchange._body if isinstance(exchange, HttpRelay) else exchange._request.body
        return orjson.dumps(real().decode(body["prompt"]) if "prompt" in body else body)
    await opened.produce_reply()
    return orjson.dumps(exchange._engine.rendered)
