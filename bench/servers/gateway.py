"""Starts the gateway as a user does: with a config file and no special switches."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from bench.servers.processes import Server, start_announcing_server

KEY = "bench"
"""The API key that the load generator sends."""


@dataclass(frozen=True)
class GatewaySetup:
    """The configuration of a gateway. Without `store_url` it has no store."""

    upstream: Literal["chat", "responses"] = "chat"
    """The dialect of the upstream."""
    store_url: str | None = None
    workers: int = 1
    upstreams: int = 1
    """The number of upstreams that share the turns of each name. They are one server."""
    names: int = 0
    """The number of names besides those that the upstream knows: `name-0` and so on, with short answers."""
    keys: bool = False
    reaches_loopback: bool = False
    """Whether MCP servers on 127.0.0.1 may be called."""


def start_gateway(
    upstream: Server,
    core: int | None,
    home: Path,
    setup: GatewaySetup | None = None,
    environment: Mapping[str, str] | None = None,
    program: Sequence[str] = (str(Path(sys.executable).parent / "responses-gateway"),),
    name: str = "gateway",
) -> AbstractContextManager[Server]:
    """Starts a gateway in front of `upstream`. `program` is the command without its subcommand and options."""
    config = home / f"{name}.yaml"
    # JSON is YAML too.
    config.write_bytes(orjson.dumps(_config(upstream.port, setup or GatewaySetup())))
    command = [*program, "serve", "--config", str(config)]
    return start_announcing_server(name, command, core, home / f"{name}.log", environment)


def _config(upstream: int, setup: GatewaySetup) -> dict[str, Any]:
    provider = {
        "type": "openai_compatible",
        "base_url": f"http://127.0.0.1:{upstream}/v1",
        "dialects": [setup.upstream],
        # The upstream lists only some of its models, because it has one for each name of the right form.
        "capabilities": {"images": True, "models": False},
    }
    names = [f"upstream-{number}" for number in range(setup.upstreams)] if setup.upstreams > 1 else ["upstream"]
    further_names = {f"name-{number}": {"provider": names[0], "model": "bench-4"} for number in range(setup.names)}
    keys = [{"name": "bench", "key": KEY, "models": ["*"]}]
    return {
        "server": {"port": 0, "workers": setup.workers},
        "store": {"url": setup.store_url},
        "providers": dict.fromkeys(names, provider),
        "models": {
            **further_names,
            "*": {"upstreams": [{"provider": name} for name in names]} if len(names) > 1 else {"provider": names[0]},
        },
        **({"auth": {"keys": keys}} if setup.keys else {}),
        **({"egress": {"allow": ["127.0.0.1"]}} if setup.reaches_loopback else {}),
    }
