"""A gateway's configuration before one scripted upstream."""

from collections.abc import Callable
from typing import Any, get_args

from providers.base import RelayedDialect
from tests.serving import Gateway

StartGateway = Callable[[dict[str, Any]], Gateway]
"""The fixture `gateway`."""

KEY = "upstream-secret"
SILENCE_S = 0.4
LONG_S = 90.0
"""For deadlines that must not be what ends a test."""


def config(base_url: str, *dialects: str, server: dict[str, Any] | None = None, **provider: Any) -> dict[str, Any]:
    """Returns a configuration without retries, and without deadlines unless a test is about one.

    `provider` replaces and adds what is said of the upstream. A dialect that no client speaks is a type of upstream.
    """
    native = [dialect for dialect in dialects if dialect not in get_args(RelayedDialect)]
    upstream = {
        "base_url": base_url,
        "api_key": KEY,
        **({"type": native[0]} if native else {"type": "openai_compatible", "dialects": list(dialects)}),
        "connect_s": LONG_S,
        "silence_s": LONG_S,
        "answer_s": LONG_S,
        "max_line_mb": 1,
        "retries": 0,
        **provider,
    }
    return {
        "server": {"drain_s": 0.2, **(server or {})},
        "providers": {"upstream": upstream},
        "models": {"*": {"provider": "upstream"}},
    }
