"""The gateway with vLLM inside, which records every generation of the engine.

It is started by `python -m bench.engine.recording_gateway CONFIG RUNS`, and needs an environment with vLLM. It writes
the cached tokens of second passes to the file RUNS, because no client gets them.
"""

import json
import socket
import sys
from collections.abc import AsyncGenerator, Sequence
from itertools import count
from pathlib import Path
from typing import TextIO

from bench.servers.processes import announce
from gateway.config import settings as settings_of
from gateway.logs import configure_logs
from gateway.process.server import make_server
from providers.base import Exchange
from providers.egress import EgressClient
from providers.engines.base import Engine, EngineDelta, GenerationRequest, TokenPrompt
from providers.engines.exchange import prepare_engine_exchange
from providers.vllm_inprocess.provider import VllmProvider
from translation.representation.json_types import Json
from translation.representation.profile import Profile
from translation.representation.turn import Turn


class RecordingProvider(VllmProvider):
    """Writes a line of JSON for every generation: the number of its turn, the tokens of its prompt, and how many of
    them were cached."""

    notes: TextIO
    turns = count()

    def prepare(self, turn: Turn, profile: Profile) -> Exchange:
        engine, parsers = self._supervisor.engine.select_engine(turn, profile)
        return prepare_engine_exchange(_RecordingEngine(engine, self.notes, next(self.turns)), turn, profile, parsers)


class _RecordingEngine:
    def __init__(self, engine: Engine, notes: TextIO, turn: int) -> None:
        self._engine = engine
        self._notes = notes
        self._turn = turn

    @property
    def context_window(self) -> int | None:
        return self._engine.context_window

    @property
    def supported_parameters(self) -> frozenset[str]:
        return self._engine.supported_parameters

    async def render(self, chat: Json) -> TokenPrompt:
        return await self._engine.render(chat)

    async def renders_tools(self) -> bool:
        return await self._engine.renders_tools()

    async def encode(self, text: str) -> Sequence[int]:
        return await self._engine.encode(text)

    async def decode(self, tokens: Sequence[int]) -> str:
        return await self._engine.decode(tokens)

    async def generate(self, prompt: TokenPrompt, request: GenerationRequest) -> AsyncGenerator[EngineDelta, None]:
        first = True
        async for piece in self._engine.generate(prompt, request):
            if first:
                note = {"turn": self._turn, "prompt": len(prompt.tokens), "cached": piece.cached_tokens}
                self._notes.write(json.dumps(note) + "\n")
                self._notes.flush()
                first = False
            yield piece


def main() -> None:
    config, notes = map(Path, sys.argv[1:])
    settings = settings_of.parse_settings(json.loads(config.read_text()), environ={})
    listener = socket.create_server(("127.0.0.1", 0))
    configure_logs()
    with notes.open("w") as RecordingProvider.notes:
        provider = RecordingProvider("local", settings.providers["local"], EgressClient())
        make_server(settings, lambda: announce(listener.getsockname()[1]), {"local": provider}).run(sockets=[listener])


if __name__ == "__main__":
    main()
