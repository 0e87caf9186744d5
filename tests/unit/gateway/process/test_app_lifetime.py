"""Nothing of a server remains in its process once it has ended."""

import gc
from typing import Any

import httpx
from fastapi.dependencies import models
from fastapi.routing import APIRoute

from gateway.config.settings import Settings
from gateway.service.service import Service
from tests.polling import block_until
from tests.serving import serving

KINDS = (APIRoute, Settings, Service)
CONFIG: dict[str, Any] = {"providers": {"a": {"type": "scripted"}}, "models": {"m": {"provider": "a"}}}
BODIES: dict[str, dict[str, Any]] = {
    "responses": {"input": "Hi"},
    "chat/completions": {"messages": [{"role": "user", "content": "Hi"}]},
}


def count_left() -> dict[str, int]:
    """Returns how many routes, configurations and services exist, beside those that FastAPI caches for a while."""
    for each in vars(models).values():
        if hasattr(each, "cache_clear"):
            each.cache_clear()
    gc.collect()
    kinds = [type(each) for each in gc.get_objects()]
    return {wanted.__name__: sum(kind is wanted for kind in kinds) for wanted in KINDS}


def use_server() -> dict[str, int]:
    """Asks a server of this process, and returns what exists while it runs."""
    with serving(CONFIG) as gateway:
        for path, body in BODIES.items():
            for stream in (False, True):
                asked = {"model": "m", "stream": stream, **body}
                reply = httpx.post(f"{gateway.v1}/{path}", json=asked, verify=False, trust_env=False, timeout=30)
                assert reply.status_code == 200
        return count_left()


def test_routes_configuration_and_services_of_a_server_that_has_ended_are_freed() -> None:
    use_server()  # what is made once in a process exists now
    before = count_left()
    running = use_server()
    assert all(running[name] > before[name] for name in before), running

    def is_freed() -> bool:
        left = count_left()
        return all(left[name] <= before[name] for name in before)

    block_until(is_freed, "something of the server is still there")
