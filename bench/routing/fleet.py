"""Starts replicas and a gateway before them, each as a process, and sends one streamed turn."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx

from bench.servers.processes import find_free_port

_START_S: Final = 40.0


class ClientTurn(NamedTuple):
    """What a client saw of one turn."""

    outcome: str
    """`ok`, `cut` after content, or the status of an error."""
    first_s: float
    """Seconds to the first content."""
    text: str
    prompt_blocks: int = 0
    cached_blocks: int = 0
    attempts: int = 0
    reason: str = ""
    """Why it is not ok: the code of the error, the upstream asked last, and the seconds until then."""


class Fleet(NamedTuple):
    url: str
    replicas: Sequence["subprocess.Popen[bytes]"]

    def signal(self, index: int, number: signal.Signals) -> None:
        """Sends a signal to one replica."""
        self.replicas[index].send_signal(number)


@contextmanager
def serve_fleet(count: int, model: Mapping[str, object], routing: Mapping[str, object]) -> Iterator[Fleet]:
    """Serves a name with `count` replicas until the block ends. `model` has further keys of the name."""
    ports = [find_free_port() for _ in range(count + 1)]
    providers = {
        f"gpu-{number}": {
            "type": "openai_compatible",
            "base_url": f"http://127.0.0.1:{port}/v1",
            "silence_s": 2,
            "capabilities": {"models": False},
        }
        for number, port in enumerate(ports[1:])
    }
    upstreams = [{"provider": name} for name in providers]
    config = {
        "server": {"port": ports[0], "drain_s": 0},
        "log": {"level": "error"},
        "store": {"url": None},
        "providers": providers,
        "models": {"m": {"upstreams": upstreams, **model}},
        "routing": dict(routing),
    }
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        file = folder / "config.yaml"
        file.write_text(json.dumps(config))
        replicas = [
            _start(stack, [sys.executable, "-m", "bench.routing.replica", str(port)], port) for port in ports[1:]
        ]
        _start(stack, [sys.executable, "-m", "gateway", "serve", "--config", str(file)], ports[0])
        yield Fleet(f"http://127.0.0.1:{ports[0]}/v1", replicas)


def _start(stack: ExitStack, command: Sequence[str], port: int) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.kill)
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process
        time.sleep(0.02)
    raise RuntimeError(f"{command} does not listen")


async def send_turn(
    client: httpx.AsyncClient, url: str, messages: Sequence[dict[str, Any]], **more: object
) -> ClientTurn:
    """Sends one streamed turn, and reads its reply to the end."""
    began = time.perf_counter()
    body = {"model": "m", "messages": list(messages), "stream": True, "stream_options": {"include_usage": True}, **more}
    pieces: list[str] = []
    usage: dict[str, Any] = {}
    first_s, is_complete = 0.0, False
    upstream = ""

    def describe(code: object) -> str:
        return f"{code} of {upstream or 'no upstream'} after {time.perf_counter() - began:.1f} s"

    try:
        async with client.stream("POST", f"{url}/chat/completions", json=body) as reply:
            attempts = int(reply.headers.get("x-gateway-attempts", 0))
            upstream = reply.headers.get("x-gateway-upstream", "")
            if reply.status_code != httpx.codes.OK:
                await reply.aread()
                code = reply.json()["error"]["code"]
                return ClientTurn(str(reply.status_code), 0.0, "", attempts=attempts, reason=describe(code))
            async for line in reply.aiter_lines():
                if not line.startswith("data: "):
                    continue
                if line == "data: [DONE]":
                    is_complete = True
                    continue
                chunk = json.loads(line[6:])
                if "error" in chunk:
                    reason = describe(chunk["error"].get("code"))
                    outcome = "cut" if pieces else "failed"
                    return ClientTurn(outcome, first_s, "".join(pieces), attempts=attempts, reason=reason)
                usage = chunk.get("usage") or usage
                for choice in chunk.get("choices", ()):
                    if content := choice["delta"].get("content"):
                        first_s = first_s or time.perf_counter() - began
                        pieces.append(content)
    except httpx.HTTPError as error:
        return ClientTurn(type(error).__name__, first_s, "".join(pieces), reason=describe(error))
    details = usage.get("prompt_tokens_details") or {}
    return ClientTurn(
        "ok" if is_complete else "incomplete",
        first_s,
        "".join(pieces),
        usage.get("prompt_tokens", 0),
        details.get("cached_tokens", 0),
        attempts,
    )


def print_failures(turns: Sequence[ClientTurn]) -> None:
    """Prints each turn that is not ok, and why, as comments of the table."""
    for turn in turns:
        if turn.outcome != "ok":
            print(f"<!-- {turn.outcome}, {turn.attempts} attempts: {turn.reason} -->")


def make_client() -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=500, max_keepalive_connections=500)
    return httpx.AsyncClient(timeout=30.0, trust_env=False, verify=False, limits=limits)


async def wait_for(seconds: float) -> None:
    """Waits for a moment of the simulation."""
    await asyncio.sleep(seconds)
