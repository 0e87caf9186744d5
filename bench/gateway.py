"""The gateway as a user starts it: with a config file and no special switches."""

import sys
from contextlib import AbstractContextManager
from pathlib import Path

import orjson

from bench.processes import Server, listening


def gateway(
    upstream: Server, core: int | None, home: Path, *, store_url: str | None = None
) -> AbstractContextManager[Server]:
    """One in front of `upstream`. Without `store_url` it keeps nothing."""
    config = home / "config.yaml"
    # JSON is YAML too.
    config.write_bytes(
        orjson.dumps(
            {
                "server": {"port": 0},
                "store": {"url": store_url},
                "providers": {
                    "upstream": {"type": "openai_compatible", "base_url": f"http://127.0.0.1:{upstream.port}/v1"}
                },
                "models": {"*": {"provider": "upstream"}},
            }
        )
    )
    command = [str(Path(sys.executable).parent / "responses-gateway"), "serve", "--config", str(config)]
    return listening("gateway", command, core, home / "gateway.log")
