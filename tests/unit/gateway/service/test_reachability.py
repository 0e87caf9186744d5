"""gateway/service/reachability.py: which providers' servers accept connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bench.servers.processes import find_free_port
from gateway.config.settings import Settings, parse_settings
from gateway.service.reachability import UpstreamReachability
from tests.polling import wait_until
from tests.upstream import closed_port


@asynccontextmanager
async def listening(port: int = 0) -> AsyncIterator[int]:
    async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", port)
    async with server:
        yield server.sockets[0].getsockname()[1]


def settings(interval_s: float = 10, **addresses: str | dict[str, Any]) -> Settings:
    providers = {
        name: {
            "type": "openai_compatible",
            **({"base_url": address} if isinstance(address, str) else address),
        }
        for name, address in addresses.items()
    }
    return parse_settings({"server": {"reachability_s": interval_s}, "providers": providers})


async def test_a_server_that_does_not_listen_is_named_with_the_reason() -> None:
    async with listening() as port:
        reachability = UpstreamReachability(
            settings(
                up=f"http://127.0.0.1:{port}/v1",
                down=f"http://127.0.0.1:{closed_port()}/v1",
                nowhere="http://no-such-host.invalid/v1",
            )
        )
        problems = await reachability.examine()
    assert problems["down"] == "it refuses connections: nothing listens at its address"
    assert problems.keys() == {"down", "nowhere"}
    assert "invalid" not in problems["nowhere"]


async def test_providers_without_a_server_or_behind_a_proxy_are_not_examined() -> None:
    dead = f"http://127.0.0.1:{closed_port()}/v1"
    reachability = UpstreamReachability(
        settings(scripted={"type": "scripted"}, proxied={"base_url": dead, "transport": "httpx"})
    )
    assert await reachability.examine() == {}


async def test_no_server_is_examined_if_the_interval_is_0() -> None:
    reachability = UpstreamReachability(settings(0, down=f"http://127.0.0.1:{closed_port()}/v1"))
    assert await reachability.examine() == {}


async def test_a_server_is_examined_again_after_the_interval_and_not_before() -> None:
    port = find_free_port()
    reachability = UpstreamReachability(settings(0.01, up=f"http://127.0.0.1:{port}/v1"))
    patient = UpstreamReachability(settings(1000, up=f"http://127.0.0.1:{port}/v1"))
    assert list(await reachability.examine()) == list(await patient.examine()) == ["up"]
    async with listening(port):

        async def is_reachable() -> bool:
            return not await reachability.examine()

        await wait_until(is_reachable)
        assert list(await patient.examine()) == ["up"]


async def test_those_who_ask_at_the_same_time_share_one_examination(monkeypatch: pytest.MonkeyPatch) -> None:
    connections = 0
    open_connection = asyncio.open_connection

    async def count(*arguments: Any) -> Any:
        nonlocal connections
        connections += 1
        return await open_connection(*arguments)

    monkeypatch.setattr(asyncio, "open_connection", count)
    async with listening() as port:
        address = f"http://127.0.0.1:{port}/v1"
        reachability = UpstreamReachability(settings(up=address, same=address))
        await asyncio.gather(*(reachability.examine() for _ in range(20)))
    assert connections == 1


async def test_a_server_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*_: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "open_connection", hang)
    reachability = UpstreamReachability(settings(slow={"base_url": "http://127.0.0.1:9/v1", "connect_s": 0.01}))
    assert await reachability.examine() == {"slow": "it accepts no connection within 0.01 s"}


async def test_any_other_failure_of_the_system_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any) -> Any:
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(asyncio, "open_connection", fail)
    reachability = UpstreamReachability(settings(far="http://192.0.2.1/v1"))
    assert await reachability.examine() == {"far": "it cannot be connected to: Network is unreachable"}
