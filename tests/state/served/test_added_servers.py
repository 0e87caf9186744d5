"""MCP servers that an administrator adds while the gateway runs: on every replica, and after its start."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx
import structlog

from tests.integration.mcp.tool_gateway import error_text, items_of
from tests.mcp_server import CountingServer
from tests.polling import wait_until
from tests.state.served.agui_replicas import two_replicas
from tests.upstream import ScriptedUpstream, chat_calls, chat_text, closed_port
from tests.upstream.builders import Json

PATH = "/v1/gateway/mcp-servers"
ADMIN, PLAIN, LIMITED = "admin-key-0123456789", "plain-key-0123456789", "limited-key-0123456789"
KEYS = [
    {"name": "ops", "key": ADMIN, "admin": True},
    {"name": "plain", "key": PLAIN},
    {"name": "limited", "key": LIMITED, "mcp_servers": ["open*"]},
]
SEALING = {"keys": ["k" * 32]}
DEAD = f"http://127.0.0.1:{closed_port()}/mcp"


class Replicas(NamedTuple):
    first: httpx.AsyncClient
    second: httpx.AsyncClient
    model: ScriptedUpstream


@asynccontextmanager
async def replicas(store_url: str, *, mcp: Json | None = None, **sections: Any) -> AsyncIterator[Replicas]:
    tools = {"mcp": {"admin": {"private_hosts": True, "poll_s": 0.1}, "removal_grace_s": 0.1, **(mcp or {})}}
    config = {"auth": {"keys": KEYS}, "sealing": SEALING, "tools": tools, **sections}
    async with ScriptedUpstream() as upstream, two_replicas(store_url, upstream.url, **config) as (first, second):
        yield Replicas(first, second, upstream)


async def send(client: httpx.AsyncClient, method: str, label: str = "", body: Any = None, key: str = ADMIN) -> Any:
    path = f"{PATH}/{label}" if label else PATH
    return await client.request(method, path, json=body, headers={"authorization": f"Bearer {key}"})


async def ask(client: httpx.AsyncClient, label: str, key: str = PLAIN) -> Json:
    body = {"model": "m", "input": "Hi", "tools": [{"type": "mcp", "server_label": label}]}
    reply = await client.post("/v1/responses", json=body, headers={"authorization": f"Bearer {key}"})
    response: Json = reply.json()
    return response


async def add(it: Replicas, client: httpx.AsyncClient) -> Any:
    """Makes the model call the tool `add` of the server `calc`, and returns the result."""
    it.model.on("/chat/completions", chat_calls(("calc_add", '{"a": 2, "b": 3}')), chat_text("5"))
    (call,) = items_of(await ask(client, "calc"), "mcp_call")
    return call["output"]


async def labels(client: httpx.AsyncClient, key: str = ADMIN) -> list[str]:
    return [each["server_label"] for each in (await send(client, "GET", key=key)).json()["data"]]


async def test_a_server_is_used_at_once_here_soon_elsewhere_and_after_a_start(
    store_url: str, calc: CountingServer
) -> None:
    server = {"url": calc.url, "approval": "never", "allow": ["add"], "auth": {"bearer": "the-secret-token"}}
    async with replicas(store_url) as it:
        with structlog.testing.capture_logs() as lines:
            added = await send(it.first, "PUT", "calc", server)
        assert added.status_code == 201
        assert (added.json()["server_label"], added.json()["source"]) == ("calc", "api")
        assert [(line["server"], line["key"]) for line in lines if line["event"] == "mcp_server_added"] == [
            ("calc", "ops")
        ]
        assert await add(it, it.first) == "5"
        assert calc.headers["authorization"] == "Bearer the-secret-token"
        began = time.monotonic()
        await wait_until(lambda: labels(it.second))
        assert time.monotonic() - began < 5
        assert await add(it, it.second) == "5"
        assert (await send(it.second, "PUT", "calc", {**server, "trusted": True})).status_code == 200

        shown = (await send(it.second, "GET", "calc")).json()
        assert (shown["settings"]["url"], shown["settings"]["trusted"]) == (calc.url, True)
        seen = [added.text, str(shown), str(await labels(it.first)), str(lines)]
        assert not [text for text in seen if "the-secret-token" in text]

    async with replicas(store_url) as it:
        assert await add(it, it.first) == "5"
        gone = await send(it.second, "DELETE", "calc")
        assert gone.json() == {"object": "mcp_server.deleted", "server_label": "calc", "deleted": True}
        assert (await ask(it.second, "calc"))["error"]["code"] == "unknown_server_label"
        await wait_until(lambda: no_labels(it.first))
        assert (await ask(it.first, "calc"))["error"]["code"] == "unknown_server_label"


async def no_labels(client: httpx.AsyncClient) -> bool:
    return not await labels(client)


async def test_credentials_that_no_key_of_the_configuration_opens_make_the_server_unusable(
    store_url: str, calc: CountingServer
) -> None:
    async with replicas(store_url) as it:
        assert (await send(it.first, "PUT", "calc", {"url": calc.url, "headers": {"x-key": "hidden"}})).is_success
        assert (await send(it.first, "PUT", "open", {"url": calc.url})).is_success
    async with replicas(store_url, sealing={}) as it:
        shown = (await send(it.first, "GET", "calc")).json()
        assert (shown["status"], shown["reason"]) == ("failed", "credentials_unavailable")
        assert (await ask(it.first, "calc"))["error"]["code"] == "unknown_server_label"
        assert (await send(it.first, "GET", "open")).json()["status"] == "not_used"
        for body, param in (
            ({"url": calc.url, "auth": {"bearer": "t"}}, "auth.bearer"),
            ({"url": calc.url, "headers": {"x": "t"}}, "headers"),
        ):
            refused = (await send(it.first, "PUT", "new", body)).json()["error"]
            assert refused["param"] == param
            assert "no sealing.keys" in refused["message"]
        assert (await send(it.first, "DELETE", "calc")).is_success


async def test_calls_of_a_server_that_is_removed_get_a_grace_and_then_end(store_url: str, calc: CountingServer) -> None:
    async with replicas(store_url) as it:
        it.model.on("/chat/completions", chat_calls(("calc_hang", "{}")), chat_text("Done."))
        await send(it.first, "PUT", "calc", {"url": calc.url, "approval": "never"})
        hanging = asyncio.get_running_loop().create_task(ask(it.first, "calc"))

        async def hangs() -> bool:
            return calc.runs["hang"] == 1

        await wait_until(hangs)
        assert (await send(it.second, "DELETE", "calc")).is_success
        (call,) = items_of(await hanging, "mcp_call")
        assert error_text(call) == "server_removed: the server was removed from the configuration"


async def test_names_in_use_are_refused_and_existing_servers_stay(store_url: str, calc: CountingServer) -> None:
    async with replicas(store_url, mcp={"servers": {"own": {"url": DEAD}}}) as it:
        assert (await send(it.first, "PUT", "calc", {"url": calc.url, "prefix": "tools"})).status_code == 201
        for label, body, message in (
            ("own", {"url": calc.url}, "own is a server of the configuration file: change it there"),
            ("other", {"url": calc.url, "prefix": "Own"}, "own and other have the same prefix 'Own'"),
            ("other", {"url": calc.url, "prefix": "TOOLS"}, "calc and other have the same prefix 'TOOLS'"),
        ):
            refused = await send(it.second, "PUT", label, body)
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "mcp_server_conflict")
            assert message in refused.json()["error"]["message"]
        refused = await send(it.first, "DELETE", "own")
        assert refused.status_code == 409
        assert "remove it there, and reload" in refused.json()["error"]["message"]
        assert (await send(it.first, "DELETE", "nowhere")).status_code == 404
        assert await labels(it.first) == ["own", "calc"]
        source = [each["source"] for each in (await send(it.first, "GET")).json()["data"]]
        assert source == ["configuration", "api"]
        assert "settings" not in (await send(it.first, "GET", "own")).json()
    # The file of the next start has a server with that name, which has precedence.
    async with replicas(store_url, mcp={"servers": {"tools": {"url": DEAD}}}) as it:
        shown = (await send(it.first, "GET", "calc")).json()
        assert (shown["status"], shown["reason"]) == ("failed", "name_taken")
        ready = (await it.first.get("/readyz")).json()
        assert ready["mcp_server_counts"] == {"not_used": 1, "failed": 1}, "it needs no key, so it has no names"
        assert (await send(it.first, "PUT", "calc", {"url": calc.url})).status_code == 200
        assert (await send(it.first, "GET", "calc")).json()["status"] != "failed"


async def test_only_administrators_change_servers_and_other_keys_see_those_that_they_may_use(
    store_url: str, calc: CountingServer
) -> None:
    async with replicas(store_url, mcp={"admin": {"private_hosts": True, "max_servers": 2}}) as it:
        for label in ("open-calc", "secret"):
            assert (await send(it.first, "PUT", label, {"url": calc.url})).is_success
        full = await send(it.first, "PUT", "third", {"url": calc.url})
        assert (full.status_code, "tools.mcp.admin.max_servers" in full.text) == (409, True)
        texts = set()
        for method, label in (("PUT", "new"), ("PUT", "secret"), ("DELETE", "secret"), ("DELETE", "nowhere")):
            for key in (PLAIN, LIMITED):
                refused = await send(it.first, method, label, {"url": calc.url}, key)
                assert (refused.status_code, refused.json()["error"]["code"]) == (403, "administrator_required")
                texts.add(refused.text)
        assert len(texts) == 1, "the answer does not depend on what there is"
        assert await labels(it.first) == await labels(it.first, PLAIN) == ["open-calc", "secret"]
        assert await labels(it.first, LIMITED) == ["open-calc"]
        for key in (PLAIN, LIMITED):
            shown = await send(it.first, "GET", "open-calc", key=key)
            assert (shown.status_code, "settings" in shown.json()) == (200, False)
        secret, nowhere = [await send(it.first, "GET", label, key=LIMITED) for label in ("secret", "nowhere")]
        assert (secret.status_code, nowhere.status_code) == (404, 404)
        assert secret.text.replace("secret", "nowhere") == nowhere.text
        assert (await ask(it.first, "secret", LIMITED))["error"]["code"] == "unknown_server_label"


async def test_a_private_address_needs_a_key_of_the_configuration(store_url: str, calc: CountingServer) -> None:
    async with replicas(store_url, mcp={"admin": {}}) as it:
        for url in (calc.url, "http://localhost:1/mcp", "http://169.254.169.254/latest", "http://[::1]:1/"):
            refused = await send(it.first, "PUT", "calc", {"url": url})
            assert (refused.status_code, refused.json()["error"]["param"]) == (400, "url")
            assert "tools.mcp.admin.private_hosts" in refused.json()["error"]["message"]
        assert await labels(it.first) == []
    # It was allowed when the server was added. The guard looks again when it is connected.
    async with replicas(store_url) as it:
        assert (await send(it.first, "PUT", "calc", {"url": calc.url})).is_success
    async with replicas(store_url, mcp={"admin": {}}) as it:
        it.model.on("/chat/completions", chat_text("never"))
        failed = await ask(it.first, "calc")
        assert failed["error"]["code"] == "external_connector_error"
        assert "outside the public internet" in failed["error"]["message"]
