"""Web searches of the gateway by hosted tool objects in `tools` of Chat Completions."""

from typing import Any, Final

import openai
import pytest

from tests.integration.mcp.tool_gateway import hosting
from tests.integration.web_search.search_gateway import search, searching
from tests.integration.web_search.test_other_apis import MODEL, link
from tests.upstream import chat_calls, chat_text

USER: Final[Any] = [{"role": "user", "content": "Hi"}]
TOOL: Final[Any] = {"type": "web_search"}
OWN: Final[Any] = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_web_search_in_tools_is_run_and_cited(streamed: bool) -> None:
    async with searching(*MODEL) as served:
        reply: Any = await served.gateway.client.chat.completions.create(
            model="m", messages=USER, tools=[TOOL], stream=streamed
        )
        if streamed:
            deltas = [chunk.choices[0].delta.model_dump(exclude_unset=True) async for chunk in reply if chunk.choices]
        else:
            deltas = [reply.choices[0].message.model_dump()]
        wanted = f"☔ Rain {link(served)}."
    content = "".join(delta.get("content") or "" for delta in deltas)
    assert content == wanted
    (annotation,) = [each for delta in deltas for each in delta.get("annotations") or ()]
    span = annotation["url_citation"]
    assert content[span["start_index"] : span["end_index"]] == link(served)
    assert not any(delta.get("tool_calls") for delta in deltas)


async def test_its_parameters_are_those_of_the_responses_api() -> None:
    tool: Any = {**TOOL, "filters": {"allowed_domains": ["elsewhere.example"]}, "search_context_size": "low"}
    async with searching(*MODEL) as served:
        completion = await served.gateway.client.chat.completions.create(model="m", messages=USER, tools=[tool])
        read = served.results_of()
        (asked,) = served.web.requests_of("/search")
    assert "Rain" not in read, "the only result is of another domain"
    assert "site" in str(asked)
    assert completion.choices[0].message.content == "☔ Rain 【1】."


async def test_what_is_honoured_is_no_loss() -> None:
    """A strict request is refused if it loses anything."""
    tool: Any = {**TOOL, "filters": {"blocked_domains": ["a.example"]}, "search_context_size": "high"}
    async with searching(*MODEL) as served:
        raw = await served.gateway.client.chat.completions.with_raw_response.create(
            model="m", messages=USER, tools=[tool], extra_headers={"x-gateway-strict": "true"}
        )
    assert "x-gateway-loss" not in raw.headers


async def test_what_is_not_honoured_is_one_loss() -> None:
    place = {"type": "approximate", "country": "DE", "street": "Ring 1"}
    tool: Any = {**TOOL, "user_location": place, "color": "red"}
    async with searching(*MODEL) as served:
        raw = await served.gateway.client.chat.completions.with_raw_response.create(
            model="m", messages=USER, tools=[tool]
        )
    losses = ("user_location.country=dropped", "user_location.street=dropped", "color=dropped")
    assert raw.headers["x-gateway-loss"] == ", ".join(f"tools[0].{loss}" for loss in losses)


async def test_a_loss_of_the_options_names_the_options() -> None:
    place: Any = {"type": "approximate", "approximate": {"country": "DE"}}
    async with searching(*MODEL) as served:
        raw = await served.gateway.client.chat.completions.with_raw_response.create(
            model="m", messages=USER, web_search_options={"user_location": place}
        )
    assert raw.headers["x-gateway-loss"] == "web_search_options.user_location.country=dropped"


async def test_a_search_beside_a_function_leaves_it_to_the_client() -> None:
    async with searching(chat_calls(search("rain")), chat_calls(("add", "{}"))) as served:
        completion = await served.gateway.client.chat.completions.create(model="m", messages=USER, tools=[OWN, TOOL])
        offered = [tool["function"]["name"] for tool in served.gateway.model.requests[0].json["tools"]]
    (call,) = completion.choices[0].message.tool_calls or []
    assert call.model_dump()["function"]["name"] == "add"
    assert {*offered} == {"add", "web_search", "open_page", "find_in_page"}


BAD: Final[dict[str, tuple[Any, str]]] = {
    "no domain": ({"filters": {"allowed_domains": ["http://a.example/x"]}}, "tools[0].filters.allowed_domains"),
    "no size": ({"search_context_size": "huge"}, "tools[0].search_context_size"),
    "no place": ({"user_location": "Paris"}, "tools[0].user_location"),
}


@pytest.mark.parametrize("kind", BAD)
async def test_what_is_wrong_is_named(kind: str) -> None:
    more, param = BAD[kind]
    async with searching(*MODEL) as served:
        tool: Any = {**TOOL, **more}
        with pytest.raises(openai.BadRequestError) as refused:
            await served.gateway.client.chat.completions.create(model="m", messages=USER, tools=[tool])
        assert served.gateway.model.requests == []
    body: Any = refused.value.body
    assert body["param"].startswith(param), body


async def test_two_searches_are_refused_by_the_name_of_the_second() -> None:
    async with searching(*MODEL) as served:
        for more in ({"tools": [TOOL, TOOL]}, {"tools": [TOOL], "web_search_options": {}}):
            with pytest.raises(openai.BadRequestError) as refused:
                await served.gateway.client.chat.completions.create(model="m", messages=USER, **more)
            body: Any = refused.value.body
            assert body["param"] == ("tools[1]" if "web_search_options" not in more else "web_search_options"), body


@pytest.mark.parametrize("choice", ["required", {"type": "web_search"}])
async def test_without_an_engine_a_search_is_a_loss_and_a_forced_one_is_refused(choice: Any) -> None:
    async with hosting(chat_text("Dry.")) as served:
        raw = await served.client.chat.completions.with_raw_response.create(model="m", messages=USER, tools=[TOOL])
        assert raw.headers["x-gateway-loss"] == "tools[0]=web_search left out"
        assert "tools" not in served.model.requests[0].json, "the upstream's API has no such tool"
        with pytest.raises(openai.BadRequestError) as refused:
            await served.client.chat.completions.create(model="m", messages=USER, tools=[TOOL], tool_choice=choice)
    body: Any = refused.value.body
    assert body["param"].startswith("tool_choice")
