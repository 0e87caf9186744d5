"""MCP servers that were added over the API: one row for a label, and one for a prefix, whichever replica is faster."""

import asyncio

from gateway.config.settings import EgressSettings
from gateway.config.tool_settings import McpSettings
from gateway.state.operator_records import StoredServer
from gateway.state.sql.store import SqlStore
from gateway.tools.operator_servers.added_servers import AddedServers
from gateway.tools.operator_servers.servers import OperatorServers


def server(label: str, prefix: str | None = None, url: str = "https://mcp.example.com/mcp") -> StoredServer:
    return StoredServer(label, prefix, f'{{"url": "{url}"}}', None, "ops")


async def test_a_server_is_stored_replaced_and_deleted(store: SqlStore, other: SqlStore) -> None:
    assert await store.added_servers.store_added_server(server("b", "b"), 9) == "added"
    assert await store.added_servers.store_added_server(server("a"), 9) == "added"
    assert (
        await other.added_servers.store_added_server(server("b", "c", "https://other.example.com/mcp"), 9) == "replaced"
    )
    rows = await store.added_servers.load_added_servers()
    assert [(row.label, row.prefix, row.added_by) for row in rows] == [("a", None, "ops"), ("b", "c", "ops")]
    assert "other.example.com" in rows[1].settings
    assert await other.added_servers.delete_added_server("b")
    assert not await store.added_servers.delete_added_server("b")
    assert [row.label for row in await store.added_servers.load_added_servers()] == ["a"]


async def test_a_prefix_belongs_to_one_server_and_servers_are_bounded(store: SqlStore) -> None:
    assert await store.added_servers.store_added_server(server("a", "x"), 2) == "added"
    assert await store.added_servers.store_added_server(server("b", "x"), 2) == "prefix_taken"
    assert await store.added_servers.store_added_server(server("b"), 2) == "added"
    assert await store.added_servers.store_added_server(server("c"), 2) == "too_many"
    assert await store.added_servers.store_added_server(server("b", "y"), 2) == "replaced"
    assert len(await store.added_servers.load_added_servers()) == 2


async def test_of_two_replicas_that_add_one_prefix_at_once_one_does(store: SqlStore, other: SqlStore) -> None:
    for number in range(5):
        prefix = f"p{number}"
        results = await asyncio.gather(
            store.added_servers.store_added_server(server(f"a{number}", prefix), 99),
            other.added_servers.store_added_server(server(f"b{number}", prefix), 99),
        )
        assert sorted(results) == ["added", "prefix_taken"]
    assert len(await store.added_servers.load_added_servers()) == 5


async def test_replicas_that_add_at_once_stay_within_the_limit(store: SqlStore, other: SqlStore) -> None:
    results = await asyncio.gather(
        *((store, other)[number % 2].added_servers.store_added_server(server(f"s{number}"), 3) for number in range(8))
    )
    assert sorted(results) == ["added"] * 3 + ["too_many"] * 5
    assert len(await store.added_servers.load_added_servers()) == 3


async def test_of_two_replicas_that_add_one_label_at_once_the_second_replaces(store: SqlStore, other: SqlStore) -> None:
    for number in range(5):
        row = server(f"a{number}", f"p{number}")
        results = await asyncio.gather(
            store.added_servers.store_added_server(row, 99), other.added_servers.store_added_server(row, 99)
        )
        assert sorted(results) == ["added", "replaced"]


async def test_queries_that_older_versions_stored_in_clear_are_sealed(store: SqlStore, other: SqlStore) -> None:
    """Whichever replica reads the row first does it; a server that was removed meanwhile stays removed."""
    url = "https://mcp.example.com/mcp?key=the-secret"
    await store.added_servers.store_added_server(server("old", "old", url), 9)
    await store.added_servers.store_added_server(server("plain", "plain"), 9)
    without_keys, first, second = [
        AddedServers(each.added_servers, keys, EgressSettings(), OperatorServers(McpSettings(), EgressSettings()))
        for each, keys in ((store, []), (store, [b"k" * 32]), (other, [b"k" * 32]))
    ]
    await without_keys.refresh(connects=False)
    assert "the-secret" in (await store.added_servers.load_added_servers())[0].settings
    assert without_keys.describe_settings("old") == {"url": f"https://mcp.example.com/mcp?{'*' * 10}"}
    await asyncio.gather(first.refresh(connects=False), second.refresh(connects=False))
    (old, plain) = await store.added_servers.load_added_servers()
    assert "the-secret" not in old.settings
    assert old.sealed is not None
    assert plain == server("plain", "plain")
    await second.refresh(connects=False)
    assert second.describe_settings("old") == {"url": f"https://mcp.example.com/mcp?{'*' * 10}"}
    await second.remove("old", "ops")
    assert not await store.added_servers.replace_added_server(old, old)
