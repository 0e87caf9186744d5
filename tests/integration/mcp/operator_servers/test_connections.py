"""Connections to MCP servers of the configuration: lists that change, older transports, and commands."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from openai import APIStatusError

from dataplane.sharing.fair_turns import current_owner
from gateway.tools.mcp.errors import McpFault
from gateway.tools.mcp.server import McpServer, StdioCommand
from tests.integration.mcp.operator_servers.operator_gateway import (
    ADD,
    CHILD,
    DONE,
    configured,
    listed_names,
    model_with,
    operator_server,
    using,
)
from tests.integration.mcp.tool_gateway import Hosting, call_of, error_text, hosting, items_of
from tests.mcp_script import LOOK_UP as LOOK_UP_TOOL
from tests.mcp_script import (
    Era,
    answer,
    change_stream,
    change_subscription,
    list_result,
    scripted_mcp,
)
from tests.mcp_server import mcp_server
from tests.polling import wait_until
from tests.upstream import Reply, chat_calls, chat_text
from tests.upstream.script import Script


def child_calls(name: str, arguments: str = "{}") -> Any:
    return chat_calls((f"child_{name}", arguments))


async def until_listed(gateway: Hosting, name: str) -> None:
    async with asyncio.timeout(60):
        while name not in await listed_names(gateway):
            pass


async def test_a_change_during_a_response_is_in_the_next_one() -> None:
    calls = [child_calls("grow"), child_calls("grown"), DONE]
    async with hosting(*calls, mcp=configured(child={"stdio": CHILD}), models=model_with("child")) as gateway:
        response = await gateway.ask()
        grow, grown = items_of(response, "mcp_call")
        assert grow["output"] == "grown"
        assert error_text(grown) == "child_grown is not a valid tool name"
        await until_listed(gateway, "child_grown")
        again = await gateway.ask(
            previous_response_id=None, input=[*response["output"], {"role": "user", "content": "?"}]
        )
        (listed,) = items_of(again, "mcp_list_tools")
        assert "grown" in {tool["name"] for tool in listed["tools"]}


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_server_over_http_reports_its_changes(era: Era) -> None:
    lists = [answer(list_result(LOOK_UP_TOOL)), answer(list_result({**LOOK_UP_TOOL, "name": "new"}))]
    reports = change_stream if era == "legacy" else None
    methods: Any = {"tools/list": lists, "subscriptions/listen": change_subscription}
    async with (
        scripted_mcp(era=era, methods=methods, get=reports) as server,
        hosting(chat_text("Hi."), mcp=configured(it={"url": server.url}), models=model_with("it")) as gateway,
    ):
        assert await listed_names(gateway) <= {"it_look_up", "it_new"}
        await until_listed(gateway, "it_new")
        assert len(server.received("tools/list")) == 2


async def test_a_list_is_read_again_after_its_time_to_live_and_stays_if_that_fails() -> None:
    lists: list[Script] = [
        answer(list_result(LOOK_UP_TOOL)),
        Reply(500),
        answer(list_result({**LOOK_UP_TOOL, "name": "new"})),
    ]
    async with (
        scripted_mcp(methods={"tools/list": lists}) as server,
        hosting(
            chat_text("Hi."), mcp=configured(it={"url": server.url, "list_ttl_s": 0.01}), models=model_with("it")
        ) as gateway,
    ):
        names = [await listed_names(gateway) for _ in range(3)]
        assert names[0] == {"it_look_up"}
        assert set() not in names
        await until_listed(gateway, "it_new")


async def test_a_server_of_the_older_transport_is_served_and_found_again_after_it_was_away() -> None:
    calls = [ADD, DONE, chat_calls(("calc_long", '{"size": 2000000}')), DONE, ADD, DONE]
    with mcp_server(sse=True) as server:
        mcp = configured(calc={"sse": server.url, "auth": {"bearer": "the-operators-token"}}) | {"max_result_mb": 1}
        async with hosting(*calls, mcp=mcp, models=model_with("calc")) as gateway:
            assert call_of(await gateway.ask())["output"] == "5"
            assert server.headers["authorization"] == "Bearer the-operators-token"
            assert call_of(await gateway.ask())["status"] == "failed"
            assert call_of(await gateway.ask())["output"] == "5"
        assert server.runs["add"] == 2


async def test_a_server_of_the_older_transport_that_refuses_is_named() -> None:
    async with scripted_mcp(get=Reply(403, body=b"no")) as server:
        mcp = configured(calc={"sse": server.url})
        async with hosting(chat_text("never"), mcp=mcp) as gateway:
            with pytest.raises(APIStatusError, match="HTTP status 403: no"):
                await gateway.ask(*using("calc"))


class TestChildren:
    """Tests of servers with `stdio`."""

    async def test_a_child_that_crashes_is_started_again_and_leaves_nothing(self) -> None:
        scripts = [child_calls("pid"), child_calls("fork"), child_calls("die"), child_calls("pid"), DONE]
        config = {"mcp": configured(child={"stdio": CHILD}), "models": model_with("child")}
        async with hosting(*scripts, **config) as gateway:
            response = await gateway.ask()
            first, forked, dead, second = items_of(response, "mcp_call")
            assert dead["error"]["message"].startswith("the connection closed before the answer")
            assert first["output"] != second["output"]
            await wait_until(lambda: not is_alive(int(forked["output"])))
        for call in (first, second):
            assert not exists(int(call["output"])), "neither runs nor is a zombie"

    async def test_a_child_that_fails_at_once_is_started_again_with_pauses_and_its_errors_are_bounded(self) -> None:
        program = "import sys; sys.stderr.write('x' * 1_000_000 + 'the last words'); sys.exit(1)"
        command = StdioCommand(arguments=[sys.executable, "-c", program])
        server = operator_server(McpServer(label="child", command=command))
        for _ in range(3):
            with pytest.raises(McpFault) as failed:
                await server.list_tools()
            assert "the next attempt" not in str(failed.value)
        assert len(server.last_output) == 8 * 1024
        assert server.last_output.endswith("the last words")
        with pytest.raises(McpFault, match="the next attempt is in"):
            await server.list_tools()
        await server.remove(0)

    async def test_a_child_that_ignores_sigterm_is_ended_with_the_gateway(self) -> None:
        config = {"mcp": configured(child={"stdio": [*CHILD, "--stubborn"]}), "models": model_with("child")}
        async with hosting(child_calls("pid"), child_calls("fork"), DONE, **config) as gateway:
            calls = items_of(await gateway.ask(), "mcp_call")
        # They were killed; on a busy machine they end a moment later.
        await wait_until(lambda: not any(is_alive(int(call["output"])) for call in calls))

    async def test_a_result_that_is_too_large_ends_its_call_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("A_SECRET_OF_THE_GATEWAY", "x")
        server = {"stdio": CHILD, "env": {"TOKEN": "y"}}
        config = {"mcp": configured(child=server) | {"max_result_mb": 1}, "models": model_with("child")}
        calls = chat_calls(("child_long", '{"size": 2000000}'), ("child_environment", "{}"))
        async with hosting(calls, DONE, **config) as gateway:
            long, environment = items_of(await gateway.ask(), "mcp_call")
        assert "larger than 1 MiB" in error_text(long)
        names = environment["output"].split()
        assert "TOKEN" in names
        assert "A_SECRET_OF_THE_GATEWAY" not in names, "a child inherits only what is allowed"

    async def test_a_command_that_does_not_exist_is_named(self) -> None:
        async with hosting(mcp=configured(child={"stdio": ["no-such-command"]})) as gateway:
            with pytest.raises(APIStatusError, match="the command cannot be started: No such file") as failed:
                await gateway.ask(*using("child"))
            assert failed.value.status_code == 424


def is_alive(pid: int) -> bool:
    """Whether a process runs. An orphan that has ended may wait for the system to remove it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it ended, before the file was opened or while it was read
        return False


def exists(pid: int) -> bool:
    """Whether a process exists, including zombies."""
    return Path(f"/proc/{pid}").exists()


async def test_calls_of_one_owner_leave_room_for_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.tools.mcp.operator_server._MAX_CALLS", 4)

    async def call(owner: str, name: str, arguments: Any) -> Any:
        current_owner.set(owner)
        return await calculator.call_tool(name, arguments, None)

    with mcp_server() as server:
        calculator = operator_server(McpServer(label="calc", url=server.url))
        hanging = [asyncio.create_task(call("ann", "hang", {})) for _ in range(10)]
        try:
            await wait_until(lambda: server.runs["hang"] == 3)
            async with asyncio.timeout(60):
                (text,) = (await asyncio.create_task(call("bob", "add", {"a": 2, "b": 3}))).content
            assert text.text == "5"
            assert server.runs["hang"] == 3
        finally:
            for task in hanging:
                task.cancel()
            await asyncio.wait(hanging)
            await calculator.remove(0)


async def test_a_call_that_never_gets_its_turn_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.tools.mcp.operator_server._MAX_CALLS", 1)
    with mcp_server() as server:
        calculator = operator_server(McpServer(label="calc", url=server.url))
        hanging = asyncio.create_task(calculator.call_tool("hang", {}, None))
        try:
            await wait_until(lambda: server.runs["hang"] == 1)
            monkeypatch.setattr(calculator, "settings", replace(calculator.settings, call_deadline_s=0.05))
            with pytest.raises(McpFault, match="other calls") as refused:
                await calculator.call_tool("add", {"a": 2, "b": 3}, None)
            assert refused.value.kind == "timeout"
        finally:
            hanging.cancel()
            await asyncio.wait({hanging})
            await calculator.remove(0)
