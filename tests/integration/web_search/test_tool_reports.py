"""The report of a response says what its tools have done, in numbers."""

from pathlib import Path
from typing import Any, Final

import openai
import pytest

from tests.databases import ready_sqlite
from tests.integration.mcp.tool_gateway import LOOK_UP, hosting, mcp_tool
from tests.integration.web_search.search_gateway import call, search, searching
from tests.integration.web_search.web_server import WebReply
from tests.mcp_script import answer, scripted_mcp, text_result
from tests.upstream import chat_calls, chat_text
from tests.upstream.builders import Json

INCLUDE: Final[Any] = ["gateway.report"]


def store_in(folder: Path) -> Json:
    return {"store": {"url": ready_sqlite(folder / "state.db")}}


async def test_a_stored_response_has_the_numbers_of_each_tool_for_those_who_ask(tmp_path: Path) -> None:
    pages = {"/long": WebReply(b"x" * 70_000, "text/plain")}
    async with searching(web=pages, **store_in(tmp_path)) as served:
        long = served.rain.replace("/rain", "/long")
        served.gateway.model.on(
            "/chat/completions",
            chat_calls(search("rain"), call("open_page", url=long)),
            chat_calls(call("open_page", url="http://127.0.0.1:1/"), call("web_search", queries=[])),
            chat_text("Yes."),
        )
        created = await served.ask()
        asked: Any = await served.gateway.client.responses.retrieve(created["id"], include=INCLUDE)
        plain = await served.gateway.client.responses.retrieve(created["id"])
        listed = await served.gateway.client.get("/responses", cast_to=object)
    report = asked.model_dump()["gateway_report"]
    searches, opened = report["tools"]["web_search"], report["tools"]["open_page"]
    assert (searches["calls"], searches["failed"], searches["results"]) == (2, 1, 1)
    assert (opened["calls"], opened["failed"], opened["results"]) == (2, 1, 1)
    assert opened["bytes"] > 50_000
    assert min(searches["ms"], opened["ms"]) >= 0
    assert report["notes"] == [{"tool": "open_page", "note": "cut", "calls": 1}]
    for hidden in (created, plain.model_dump()):
        assert "gateway_report" not in hidden
    assert "gateway_report" not in str(listed)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_may_ask_for_the_report_at_once(stream: bool) -> None:
    async with scripted_mcp(answer(text_result("It is 17."))) as mcp, hosting() as served:
        asked: Json = {"model": "m", "input": "Hi", "tools": [mcp_tool(mcp.url)], "include": INCLUDE}
        created: Any = await served.client.responses.create(**asked, stream=stream)
        final = [event async for event in created][-1].response if stream else created
    tools = final.model_dump()["gateway_report"]["tools"]
    assert [*tools] == ["lookup.look_up"]
    assert tools["lookup.look_up"] | {"ms": 0} == {"calls": 1, "failed": 0, "ms": 0, "bytes": 9, "results": 1}


async def test_calls_that_were_not_run_are_skipped_and_what_was_removed_is_noted() -> None:
    secret = "sesame-secret-of-the-user"
    tool = mcp_tool("", authorization=secret)
    limits = {"calls": 1}
    script = (chat_calls(LOOK_UP, ("lookup_look_up", '{"a": 1}')), chat_text("Done."))
    async with (
        scripted_mcp(answer(text_result(f"The key is {secret}."))) as mcp,
        hosting(*script, chat_text("Done."), mcp=limits) as served,
    ):
        created = await served.ask({**tool, "server_url": mcp.url}, include=INCLUDE)
    report = created["gateway_report"]
    assert report["tools"]["lookup.look_up"]["calls"] == 2
    assert report["tools"]["lookup.look_up"]["failed"] == 1
    assert sorted((note["note"], note["calls"]) for note in report["notes"]) == [("redacted", 1), ("skipped", 1)]
    assert secret not in str(created)


async def test_a_response_without_tools_has_no_report_and_its_upstream_never_hears_of_it(tmp_path: Path) -> None:
    async with hosting(chat_text("Hello."), **store_in(tmp_path)) as served:
        created = await served.ask(include=INCLUDE)
        stored: Any = await served.client.responses.retrieve(created["id"], include=INCLUDE)
        with pytest.raises(openai.BadRequestError) as refused:
            await served.client.responses.input_items.list(created["id"], include=INCLUDE)
    assert "gateway_report" not in created
    assert "gateway_report" not in stored.model_dump()
    assert refused.value.param == "include"
