"""Nothing of a server remains in its process once it has ended."""

from typing import Any

import httpx
from fastapi.dependencies import models
from fastapi.routing import APIRoute

from gateway.config.settings import Settings
from gateway.service.service import Service
from tests.own_process import NewObjects
from tests.polling import block_until
from tests.serving import serving

KINDS = (APIRoute, Settings, Service)
CONFIG: dict[str, Any] = {"providers": {"a": {"type": "scripted"}}, "models": {"m": {"provider": "a"}}}
BODIES: dict[str, dict[str, Any]] = {
    "responses": {"input": "Hi"},
    "chat/completions": {"messages": [{"role": "user", "content": "Hi"}]},
}


def clear_caches() -> None:
    """Clears what FastAPI caches for a while."""
    for each in vars(models).values():
        if hasattr(each, "cache_clear"):
            each.cache_clear()


def use_server() -> NewObjects:
    """Asks a server of this process. Returns what was made until it stops."""
    new = NewObjects(*KINDS)
    with serving(CONFIG) as gateway:
        for path, body in BODIES.items():
            for stream in (False, True):
                asked = {"model": "m", "stream": stream, **body}
                reply = httpx.post(f"{gateway.v1}/{path}", json=asked, verify=False, trust_env=False, timeout=60)
                assert reply.status_code == 200
        new.find()
        assert {*new.list_left()} == {kind.__name__ for kind in KINDS}
    return new


def test_routes_configuration_and_services_of_a_server_that_has_ended_are_freed() -> None:
    use_server()  # what is made once in a process exists now
    new = use_server()

    def is_freed() -> bool:
        clear_caches()
        return not new.list_left()

    block_until(is_freed, "something of the server is still there")
