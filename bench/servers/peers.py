"""Starts other routers and gateways in front of the same upstream, as their users install and start them.

They are wheels in an environment of their own. `make bench-peers` installs what requirements/peers.txt locks, and sets
PEERS_PYTHON to the path of its Python.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import orjson

from bench.load.replies import Model, find_fault
from bench.load.requests import LoadSpec, build_request
from bench.servers.processes import Server, find_free_port, start_server_on_port

_READY_S = 90
_ANSWER_S = 20
_POLL_S = 0.2
_MODEL = Model.named("bench-4")


@dataclass(frozen=True)
class Peer:
    """Another router or gateway.

    `arguments` returns its command line from (its port, another free port, the upstream's port, a folder).
    """

    name: str
    arguments: Callable[[int, int, int, Path], Sequence[str]]
    environment: Mapping[str, str] = field(default_factory=dict)


def _build_router_arguments(*command: str) -> Callable[[int, int, int, Path], Sequence[str]]:
    """Returns the arguments of a router. The three routers are forks of one another and share their options."""

    def arguments(port: int, other: int, upstream: int, _: Path) -> Sequence[str]:
        return [
            *command,
            *("--host", "127.0.0.1", "--port", str(port)),
            *("--worker-urls", f"http://127.0.0.1:{upstream}"),
            *("--policy", "round_robin"),
            *("--prometheus-port", str(other)),
        ]

    return arguments


def _build_litellm_arguments(port: int, _: int, upstream: int, home: Path) -> Sequence[str]:
    parameters = {"model": "custom_openai/*", "api_base": f"http://127.0.0.1:{upstream}/v1", "api_key": "none"}
    config = home / "litellm.json"
    config.write_bytes(orjson.dumps({"model_list": [{"model_name": "*", "litellm_params": parameters}]}))
    return ["litellm", "--host", "127.0.0.1", "--port", str(port), "--config", str(config)]


_OPEN_ENVIRONMENT = {
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    "LITELLM_LOCAL_MODEL_COST_MAP": "true",
}
"""Settings for no API keys, as with all other servers of a run, and for no requests to the internet."""

PEERS = (
    Peer("vllm-router", _build_router_arguments("vllm-router", "--log-level", "warning")),
    Peer("smg", _build_router_arguments("smg", "launch", "--log-level", "warn")),
    Peer("sglang-router", _build_router_arguments("sglang-router", "launch", "--log-level", "warn")),
    Peer("litellm", _build_litellm_arguments, _OPEN_ENVIRONMENT),
)


@contextmanager
def start_peers(upstream: Server, core: int | None, home: Path) -> Iterator[list[Server]]:
    """Starts all peers for the duration of the block, and waits until each answers correctly.

    Raises RuntimeError for one that does not.
    """
    programs = Path(_find_python()).parent
    with ExitStack() as stack:
        servers = []
        for peer in PEERS:
            print(f"starting {peer.name}", file=sys.stderr)
            folder = home / peer.name
            folder.mkdir()
            program, *arguments = peer.arguments(port := find_free_port(), find_free_port(), upstream.port, folder)
            log = folder / "log"
            server = stack.enter_context(
                start_server_on_port(
                    peer.name, [str(programs / program), *arguments], port, core, log, peer.environment
                )
            )
            _wait_until_correct(server, log)
            servers.append(server)
        yield servers


def _find_python() -> str:
    python = os.environ.get("PEERS_PYTHON")
    if python is None:
        sys.exit("PEERS_PYTHON must be the path of a Python with the peers. `make bench-peers` sets one up.")
    return python


def _wait_until_correct(server: Server, log: Path) -> None:
    deadline = monotonic() + _READY_S
    fault: str | None = "no request was sent"
    while fault and monotonic() < deadline:
        fault = _find_fault(server)
        if fault:
            sleep(_POLL_S)
    if fault:
        raise RuntimeError(f"{server.name} does not answer correctly: {fault}; its log is\n{log.read_text()[-2000:]}")


def _find_fault(server: Server) -> str | None:
    """Sends one request. Returns what is wrong with the answer, or None."""
    spec = LoadSpec(server.port, "/v1/responses", "bench-4", stream=True, connections=1, seconds=0)
    content = build_request(spec, spec.model).partition(b"\r\n\r\n")[2]
    headers = {"content-type": "application/json"}
    try:
        with urlopen(
            Request(f"http://127.0.0.1:{server.port}{spec.path}", content, headers), timeout=_ANSWER_S
        ) as reply:
            return find_fault(reply.read(), _MODEL, dialect="responses", streamed=True)
    except HTTPError as refusal:
        with refusal:
            return f"status {refusal.code}: {refusal.read()[:200]!r}"
    except OSError as failure:
        return repr(failure)
