"""The way of a request from its admission to its reply: how many functions it passes, and that it only goes down."""

import sys
import tomllib
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

from gateway.config.settings import Settings, parse_settings
from gateway.dialects.chat.endpoint import CHAT
from gateway.dialects.gemini.endpoint import GEMINI
from gateway.dialects.messages.endpoint import MESSAGES
from gateway.dialects.ollama.endpoint import OLLAMA_CHAT
from gateway.dialects.responses.endpoint import RESPONSES
from gateway.http.auth import ANONYMOUS
from gateway.http.guard import DrainState
from gateway.planning.admitted_request import AdmittedRequest
from gateway.replies.endpoints import Endpoint
from gateway.service.admission import ClientRequest
from gateway.service.provider_lifetimes import build_providers
from gateway.service.service import Service
from gateway.state.sql.store import SqlStore
from tests.databases import ready_sqlite

ROOT = Path(__file__).parents[4]
HELLO = {"role": "user", "content": "Hi"}

BODIES: dict[str, tuple[Endpoint, dict[str, Any]]] = {
    "Responses": (RESPONSES, {"input": "Hi"}),
    "chat": (CHAT, {"messages": [HELLO]}),
    "Messages": (MESSAGES, {"messages": [HELLO], "max_tokens": 50}),
    "Gemini": (GEMINI, {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}),
    "Ollama": (OLLAMA_CHAT, {"messages": [HELLO]}),
}
"""API -> its row and a body."""

MCP = {"type": "mcp", "server_label": "calc", "server_url": "https://calc.example/mcp", "require_approval": "never"}


def read_floors() -> dict[str, int]:
    """Returns the floor of each package of the gateway, 0 for the highest, as the import contract has them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(each for each in contracts if each.get("containers") == ["gateway"])["layers"]
    return {name: floor for floor, names in enumerate(layers) for name in names.split(" | ")}


FLOORS = read_floors()


class Stop(NamedTuple):
    """A function that got the request, and whether a function on a lower floor called it."""

    function: str
    is_climb: bool


def find_floor(file: str) -> int | None:
    """Returns the floor of a module of the gateway; None for any other file."""
    path = Path(file)
    if not path.is_relative_to(ROOT / "gateway"):
        return None
    return FLOORS[path.relative_to(ROOT / "gateway").parts[0].removesuffix(".py")]


async def list_stops(service: Service, endpoint: Endpoint, body: dict[str, Any]) -> list[Stop]:
    """Accepts a request. Returns the functions of the gateway that got it, each once, in their order."""
    stops: dict[str, Stop] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or (floor := find_floor(code.co_filename)) is None:
            return
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if not any(isinstance(frame.f_locals.get(name), ClientRequest | AdmittedRequest) for name in arguments):
            return
        caller = None if frame.f_back is None else find_floor(frame.f_back.f_code.co_filename)
        function = f"{code.co_filename}:{code.co_qualname}"
        stops.setdefault(function, Stop(function, caller is not None and caller > floor))

    request = ClientRequest(endpoint, ANONYMOUS, {"model": "m", **body})
    sys.setprofile(note)
    try:
        await service.accept(request)
    finally:
        sys.setprofile(None)
    return list(stops.values())


def build_settings(**more: Any) -> Settings:
    config = {
        "providers": {"up": {"type": "vllm", "base_url": "http://127.0.0.1:9/v1"}},
        "models": {"m": {"provider": "up"}},
        "tools": {"mcp": {"request_servers": "public"}},
        **more,
    }
    return parse_settings(config, environ={})


@pytest.mark.parametrize(("endpoint", "body"), BODIES.values(), ids=BODIES)
async def test_a_request_passes_few_functions_and_never_climbs(endpoint: Endpoint, body: dict[str, Any]) -> None:
    settings = build_settings(store={"url": None})
    stops = await list_stops(Service(settings, build_providers(settings), DrainState()), endpoint, body)
    assert [stop for stop in stops if stop.is_climb] == []
    assert len(stops) <= 15, stops


@pytest.mark.parametrize("more", [{}, {"tools": [MCP]}], ids=["plain", "with hosted tools"])
async def test_a_stored_request_climbs_only_where_it_may_be_heavy(more: dict[str, Any], tmp_path: Path) -> None:
    settings = build_settings(store={"url": ready_sqlite(tmp_path / "state.db")})
    store = SqlStore(settings.store, settings.background)
    await store.open()
    service = Service(settings, build_providers(settings), DrainState(), store, {"responses": RESPONSES})
    stops = await list_stops(service, RESPONSES, {"input": "Hi", **more})
    await store.aclose()
    # The pool that works on heavy requests calls the function that was handed to it.
    assert [stop.function.rpartition(":")[2] for stop in stops if stop.is_climb] == ["ResponseStorage._accept"]
    assert len(stops) <= 15, stops
