"""Tools that a model does not see before it has searched for them."""

from pathlib import Path
from typing import Any, Final

import openai
import orjson
import pytest

from tests.databases import ready_sqlite
from tests.integration.mcp.tool_gateway import hosting, items_of, mcp_tool
from tests.integration.tool_search.many_tools import many_tools_server
from tests.upstream import chat_calls, chat_text

SEARCH: Final = ("tool_search", '{"query": "send an invoice to a customer"}')
INVOICE: Final = ("crm_send_invoice", '{"customer": "ann"}')
MODEL: Final = (chat_calls(SEARCH), chat_calls(INVOICE), chat_text("Sent."))


def names_of(request: Any) -> list[str]:
    return [tool["function"]["name"] for tool in request.json.get("tools") or ()]


def deferred(url: str, **more: Any) -> Any:
    return mcp_tool(url, "crm", defer_loading=True, **more)


async def test_eight_hundred_tools_cost_some_hundred_tokens_until_one_is_needed() -> None:
    with many_tools_server(800) as url:
        async with hosting(*MODEL, mcp={"max_tools": 1000}) as gateway:
            response = await gateway.ask(deferred(url), {"type": "tool_search"})
            first, second, third = gateway.model.requests
            gateway.model.on("/chat/completions", chat_text("Yes."))
            await gateway.ask(mcp_tool(url, "crm"))
            whole = gateway.model.requests[-1]
    assert names_of(first) == ["tool_search"]
    assert names_of(second)[:2] == ["tool_search", "crm_send_invoice"], "what is loaded follows what was offered"
    assert len(names_of(second)) == 6
    assert names_of(third) == names_of(second), "what is loaded stays loaded"
    small, large = (len(orjson.dumps(request.json["tools"])) for request in (first, whole))
    assert small < 1000 < 200_000 < large
    kinds = [item["type"] for item in response["output"]]
    assert kinds == ["mcp_list_tools", "tool_search_call", "tool_search_output", "mcp_call", "message"]
    call, output = items_of(response, "tool_search_call")[0], items_of(response, "tool_search_output")[0]
    assert (call["execution"], call["call_id"], call["status"]) == ("server", None, "completed")
    assert call["arguments"] == {"query": "send an invoice to a customer"}
    assert (output["execution"], output["call_id"]) == ("server", None)
    assert [tool["name"] for tool in output["tools"]] == names_of(second)[1:]
    assert [*output["tools"][0]["parameters"]["properties"]] == ["customer"]
    assert items_of(response, "mcp_call")[0]["output"] == "sent to ann"


async def test_a_stream_has_both_items_and_no_events_of_a_search() -> None:
    with many_tools_server(20) as url:
        async with hosting(*MODEL) as gateway:
            stream = await gateway.client.responses.create(
                model="m", input="Hi", tools=[deferred(url), {"type": "tool_search"}], stream=True
            )
            events: list[Any] = [event async for event in stream]
    assert not [event.type for event in events if event.type.startswith("response.tool_search")]
    added = [event.item.type for event in events if event.type == "response.output_item.added"]
    assert added == ["mcp_list_tools", "tool_search_call", "tool_search_output", "mcp_call", "message"]
    indexes = [event.output_index for event in events if event.type == "response.output_item.done"]
    assert indexes == [*range(5)]


async def test_functions_of_the_client_are_found_too() -> None:
    def function(name: str, **more: Any) -> Any:
        return {
            "type": "function",
            "name": name,
            "description": f"Does {name}",
            "parameters": {"type": "object"},
            **more,
        }

    custom: Any = {"type": "custom", "name": "draw_a_plan", "defer_loading": True}
    space: Any = {
        "type": "namespace",
        "name": "shop",
        "description": "A shop",
        "tools": [function("list_goods"), function("sell_goods", defer_loading=True)],
    }
    tools = [function("now"), function("send_letter", defer_loading=True), custom, space, {"type": "tool_search"}]
    script = (chat_calls(("tool_search", '{"query": "sell goods, draw a plan"}')), chat_text("Yes."))
    async with hosting(*script) as gateway:
        response = await gateway.ask(*tools, extra_headers={"x-gateway-strict": "true"})
        first, second = map(names_of, gateway.model.requests)
    assert first == ["now", "shop__list_goods", "tool_search"]
    assert second[:3] == first
    assert {*second[3:]} == {"draw_a_plan", "shop__sell_goods"}
    loaded = items_of(response, "tool_search_output")[0]["tools"]
    assert {tool["type"] for tool in loaded} == {"custom", "namespace"}


async def test_a_tool_that_is_not_loaded_runs_if_the_model_knows_it() -> None:
    own: Any = {"type": "function", "name": "own", "parameters": {"type": "object"}, "defer_loading": True}
    with many_tools_server(20) as url:
        async with hosting(chat_calls(INVOICE), chat_text("Sent."), chat_calls(("own", "{}"))) as gateway:
            response = await gateway.ask(deferred(url), {"type": "tool_search"})
            second = await gateway.ask(own, {"type": "tool_search"})
    assert items_of(response, "mcp_call")[0]["output"] == "sent to ann"
    assert items_of(second, "function_call")[0]["name"] == "own"


async def test_nothing_found_is_said_and_a_broken_call_is_incomplete() -> None:
    calls = (chat_calls(("tool_search", '{"query": "zzzz"}')), chat_calls(("tool_search", "{}")), chat_text("No."))
    with many_tools_server(20) as url:
        async with hosting(*calls) as gateway:
            response = await gateway.ask(deferred(url), {"type": "tool_search"})
            read = [request.json["messages"][-1]["content"] for request in gateway.model.requests[1:]]
    assert read[0].startswith("No tool was found")
    assert items_of(response, "tool_search_output")[0]["tools"] == []
    first, second = items_of(response, "tool_search_call")
    assert (first["status"], second["status"]) == ("completed", "incomplete")
    assert len(items_of(response, "tool_search_output")) == 1


@pytest.mark.parametrize("keeps_history", [False, True])
async def test_what_is_loaded_stays_loaded_in_later_turns(tmp_path: Path, keeps_history: bool) -> None:
    with many_tools_server(20) as url:
        tools = (deferred(url), {"type": "tool_search"})
        store = {"url": ready_sqlite(tmp_path / "state.db")}
        async with hosting(*MODEL, chat_text("Yes."), store=store) as gateway:
            first = await gateway.ask(*tools)
            if keeps_history:
                await gateway.ask(*tools, store=False, input=[*first["output"], {"role": "user", "content": "More?"}])
            else:
                await gateway.ask(*tools, previous_response_id=first["id"], input="More?")
            before, after = map(names_of, gateway.model.requests[-2:])
            read = [m for m in gateway.model.requests[-1].json["messages"] if m["role"] == "tool"]
    assert after == before
    assert read[0]["content"].startswith("Loaded: crm_send_invoice"), "the model reads what it read before"


async def test_a_forced_tool_is_loaded_at_once() -> None:
    with many_tools_server(20) as url:
        async with hosting(chat_calls(INVOICE), chat_text("Sent.")) as gateway:
            await gateway.ask(
                deferred(url),
                {"type": "tool_search"},
                tool_choice={"type": "mcp", "server_label": "crm", "name": "send_invoice"},
            )
            assert names_of(gateway.model.requests[0]) == ["crm_send_invoice"]
            assert names_of(gateway.model.requests[1]) == ["tool_search", "crm_send_invoice"]


async def test_many_tools_are_searched_by_the_configuration() -> None:
    with many_tools_server(20) as url:
        for auto, names in ((10, ["tool_search"]), (30, None)):
            tools = {"mcp": {}, "tool_search": {"auto": auto, "results": 2}}
            async with hosting(*MODEL, tools=tools) as gateway:
                await gateway.ask(mcp_tool(url, "crm"))
                offered = names_of(gateway.model.requests[0])
                assert offered == names if names else len(offered) == 20
                if names:
                    assert len(names_of(gateway.model.requests[1])) == 3


LATER: Any = {
    "type": "function",
    "name": "send_invoice_later",
    "description": "Sends an invoice to a customer, later.",
    "parameters": {"type": "object", "properties": {}},
    "defer_loading": True,
}
DEFERRED_BY: Final[dict[str, tuple[list[Any], int, list[str], list[str]]]] = {
    "few tools of a server": ([{"defer_loading": True}], 100, [], []),
    "many tools of a server": ([{}], 10, [], []),
    "a function beside few tools": ([{}, LATER], 100, ["a tool of the server"] * 20, []),
    "a function beside many tools": ([{}, LATER], 10, [], []),
    "a member of a namespace": (
        [{}, {"type": "namespace", "name": "shop", "description": "", "tools": [LATER]}],
        10,
        [],
        [],
    ),
    "a function without a server": ([LATER], 10, ["send_invoice_later"], ["tools.defer_loading=dropped"]),
}


@pytest.mark.parametrize("case", DEFERRED_BY)
async def test_what_a_search_of_the_configuration_defers_is_no_loss(case: str) -> None:
    tools, auto, seen, losses = DEFERRED_BY[case]
    with many_tools_server(20) as url:
        sent = [tool if tool.get("type") else mcp_tool(url, "crm", **tool) for tool in tools]
        config = {"mcp": {}, "tool_search": {"auto": auto}}
        async with hosting(chat_text("Yes."), tools=config) as gateway:
            raw = await gateway.client.responses.with_raw_response.create(model="m", input="Hi", tools=sent)
            offered = names_of(gateway.model.requests[0])
    assert raw.headers.get("x-gateway-loss", "") == ", ".join(losses)
    assert ("tool_search" in offered) == (not losses)
    assert len(offered) == (len(seen) + (not losses))
    assert ("send_invoice_later" in offered) == (seen == ["send_invoice_later"])


async def test_without_a_search_all_tools_are_offered_which_is_a_loss() -> None:
    with many_tools_server(20) as url:
        async with hosting(chat_text("Yes.")) as gateway:
            raw = await gateway.client.responses.with_raw_response.create(model="m", input="Hi", tools=[deferred(url)])
            assert len(names_of(gateway.model.requests[0])) == 20
    assert "tools[0].defer_loading=dropped" in raw.headers["x-gateway-loss"]


async def test_too_many_tools_are_refused_with_the_key_to_set() -> None:
    with many_tools_server(20) as url:
        async with hosting(mcp={"max_tools": 10}) as gateway:
            with pytest.raises(openai.BadRequestError) as refused:
                await gateway.ask(mcp_tool(url, "crm"))
        assert "tool_search" in str(refused.value)
        async with hosting(tools={"mcp": {}, "tool_search": {"max_tools": 10}}) as gateway:
            with pytest.raises(openai.BadRequestError) as refused:
                await gateway.ask(deferred(url), {"type": "tool_search"})
        assert "tools.tool_search.max_tools" in str(refused.value)
    async with hosting() as gateway:
        with pytest.raises(openai.BadRequestError) as refused:
            await gateway.ask({"type": "tool_search"}, {"type": "tool_search"})
    assert refused.value.param == "tools[1]"


async def test_a_search_of_the_client_ends_the_response() -> None:
    async with hosting(chat_calls(("tool_search", '{"query": "x"}'))) as gateway:
        tool = {"type": "tool_search", "execution": "client", "description": "d", "parameters": {"type": "object"}}
        response = await gateway.ask(tool)
    (call,) = items_of(response, "tool_search_call")
    assert call["execution"] == "client"
    assert call["call_id"]
