"""A model searches the web: the engines, the items and events of a search, and the citations in the answer."""

from pathlib import Path
from typing import Any, Final

import openai
import pytest

from tests.databases import ready_sqlite
from tests.integration.mcp.tool_gateway import items_of
from tests.integration.web_search.search_gateway import search, searching
from tests.integration.web_search.web_server import WebReply, json_reply, redirect_to
from tests.upstream import chat_calls, chat_text
from tests.upstream.builders import Json

ANSWER: Final = ("It rains ☔ (雨) 【", "1】.")
SEARCHED: Final = (chat_calls(search("rain")), chat_text(*ANSWER))


def link(url: str) -> str:
    return f"([127.0.0.1]({url}))"


async def test_a_stream_has_the_item_the_events_and_exact_citations() -> None:
    async with searching(*SEARCHED) as served:
        stream = await served.gateway.client.responses.create(
            model="m", input="Hi", tools=[{"type": "web_search"}], stream=True
        )
        events: list[Any] = [event async for event in stream]
        offered = served.gateway.model.requests[0].json["tools"]
        read = served.results_of()
        (asked,) = served.web.requests_of("/search")
    assert [each["function"]["name"] for each in offered] == ["find_in_page", "open_page", "web_search"]
    assert asked.query == {"q": "rain", "format": "json", "pageno": "1", "language": "all"}
    assert not {"cookie", "authorization"} & asked.headers.keys()
    assert asked.headers["user-agent"] == "responses-gateway"
    assert f"【1】 Rain {served.rain}\nIt rains [9] today." in read, "a document cannot forge a marker"
    kinds = [event.type for event in events if "web_search" in event.type]
    assert kinds == [f"response.web_search_call.{phase}" for phase in ("in_progress", "searching", "completed")]
    added = next(event for event in events if event.type == "response.output_item.added")
    assert "action" not in added.item.model_fields_set, "it is known at the end"
    response = events[-1].response.model_dump()
    (item,) = items_of(response, "web_search_call")
    assert item["status"] == "completed"
    assert item["action"] | {"sources": None} == {
        "type": "search",
        "query": "rain",
        "queries": ["rain"],
        "sources": None,
    }
    assert response["tool_usage"]["web_search"] == {"num_requests": 1}
    part = items_of(response, "message")[0]["content"][0]
    assert part["text"] == f"It rains ☔ (雨) {link(served.rain)}."
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == part["text"]
    (annotation,) = part["annotations"]
    assert part["text"][annotation["start_index"] : annotation["end_index"]] == link(served.rain)
    assert (annotation["url"], annotation["title"]) == (served.rain, "Rain")


BRAVE: Final = {
    "web": {"results": [{"url": "https://a.example/", "title": "<strong>A</strong> &amp; B", "description": "x"}]}
}
TAVILY: Final = {"results": [{"url": "https://a.example/", "title": "A & B", "content": "x", "score": 0.9}]}


@pytest.mark.parametrize(
    ("engine", "path", "reply"),
    [("brave", "/res/v1/web/search", BRAVE), ("tavily", "/search", TAVILY)],
    ids=["brave", "tavily"],
)
async def test_other_engines_are_asked_in_their_own_way(engine: str, path: str, reply: Json) -> None:
    tool = {
        "filters": {"allowed_domains": ["a.example"], "blocked_domains": ["b.a.example"]},
        "search_context_size": "low",
        "user_location": {"type": "approximate", "country": "de", "city": "Köln"},
    }
    async with searching(
        *SEARCHED, web={path: json_reply(reply)}, settings={"engine": engine, "key": "sesame-engine-key"}
    ) as served:
        raw = await served.gateway.client.responses.with_raw_response.create(
            model="m",
            input="Hi",
            tools=[{"type": "web_search", **tool}],  # type: ignore[list-item]
        )
        response = raw.parse().model_dump()
        (asked,) = served.web.requests_of(path)
        read = served.results_of()
    assert "【1】 A & B https://a.example/\nx" in read
    losses = raw.headers["x-gateway-loss"]
    assert "user_location.city" in losses
    assert ("user_location.country" in losses) == (engine == "tavily")
    if engine == "brave":
        assert asked.headers["x-subscription-token"] == "sesame-engine-key"
        assert asked.query == {"q": "rain site:a.example -site:b.a.example", "count": "5", "country": "DE"}
    else:
        assert asked.headers["authorization"] == "Bearer sesame-engine-key"
        assert asked.json == {
            "query": "rain",
            "max_results": 5,
            "include_domains": ["a.example"],
            "exclude_domains": ["b.a.example"],
        }
    assert "sesame" not in str(response)


FAULTS: Final[dict[str, WebReply]] = {
    "rate limited": WebReply(b"secret text of the engine", status=429),
    "json is off": WebReply(b"secret", status=403),
    "broken": WebReply(b"secret", status=500),
    "no json": WebReply(b"<html>secret</html>", "application/json"),
    "a list": json_reply([1, 2]),
    "too large": WebReply(b'{"results": "' + b"x" * 300_000 + b'"}', "application/json"),
    "too many values": WebReply(b'{"results": [' + b"1," * 90_000 + b"1]}", "application/json"),
    "compressed": WebReply(b"{}", "application/json", headers={"content-encoding": "gzip"}),
    "silent": WebReply(b"{", "application/json", stalls=True),
    "a redirect": redirect_to("/other"),
    "cut off": WebReply(b"{}", "application/json", headers={"content-length": "100"}),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_search_that_fails_is_a_failed_item_and_the_model_answers(fault: WebReply) -> None:
    settings = {"deadline_s": 0.5 if fault.stalls else 60, "max_reply_mb": 0.25}
    async with searching(*SEARCHED, web={"/search": fault}, settings=settings) as served:
        response = await served.ask()
        read = served.results_of()
        assert len(served.web.requests_of("/search")) == 1, "it is not tried again"
        assert served.web.requests_of("/other") == []
    (item,) = items_of(response, "web_search_call")
    assert (item["status"], item["action"]["query"]) == ("failed", "rain")
    assert read.startswith("search_unavailable")
    assert not {"secret", "127.0.0.1"} & {*read.split()}
    assert response["status"] == "completed"
    assert response["tool_usage"] is None


async def test_an_engine_that_finds_nothing_is_no_failure() -> None:
    async with searching(*SEARCHED, web={"/search": json_reply({"results": []})}) as served:
        response = await served.ask()
        assert served.results_of().startswith("No results were found")
    assert items_of(response, "web_search_call")[0]["status"] == "completed"
    assert items_of(response, "message")[0]["content"][0]["text"] == "".join(ANSWER), "nothing can be cited"


async def test_several_queries_are_one_call_with_each_page_once() -> None:
    results = [{"url": f"https://{name}.example/", "title": name, "content": "x" * 3000} for name in "abcdefghijklmn"]
    odd = [{"url": "ftp://x.example"}, {"url": "https://user@x.example/"}, {"title": "no url"}, 3]

    def answer(request: Any) -> WebReply:
        return json_reply({"results": [*odd, *(results if request.query["q"] == "one" else results[1:2])]})

    async with searching(chat_calls(search("one", "two")), chat_text("Yes."), web={"/search": answer}) as served:
        response = await served.ask(include=["web_search_call.action.sources"])
        read = served.results_of()
    action = items_of(response, "web_search_call")[0]["action"]
    assert (action["query"], action["queries"]) == ("one", ["one", "two"])
    assert [source["url"][8] for source in action["sources"]] == [*"abcdefgh"], (
        "eight results, each with 1000 characters"
    )
    assert read.count("x" * 1000) == 8
    assert "x" * 1001 not in read
    assert response["tool_usage"]["web_search"] == {"num_requests": 2}


@pytest.mark.parametrize(
    "arguments", ['{"query": "rain"}', '{"queries": ["rain"]}', '{"queries": "rain"}', '{"queries": ["rain", 3]}']
)
async def test_queries_may_be_written_in_other_ways(arguments: str) -> None:
    async with searching(chat_calls(("web_search", arguments)), chat_text("Yes.")) as served:
        assert items_of(await served.ask(), "web_search_call")[0]["action"]["queries"] == ["rain"]


@pytest.mark.parametrize("arguments", ["{}", '{"queries": []}', '{"queries": ["a", "b", "c", "d", "e"]}', "no json"])
async def test_arguments_without_a_usable_query_are_a_failed_item(arguments: str) -> None:
    async with searching(chat_calls(("web_search", arguments)), chat_text("Yes.")) as served:
        response = await served.ask()
        assert served.web.requests == []
    assert items_of(response, "web_search_call")[0]["status"] == "failed"
    assert [item["type"] for item in response["output"]] == ["web_search_call", "message"]


async def test_domains_of_the_request_hold_for_results_sources_and_citations() -> None:
    found = [
        "https://a.example/1",
        "https://www.a.example/2",
        "https://evil-a.example/",
        "https://a.example.evil.test/",
    ]
    reply = json_reply({"results": [{"url": url, "title": "T", "content": "c"} for url in found]})
    script = (chat_calls(search("rain")), chat_text("[x](https://evil-a.example/) [y](https://a.example/1)"))
    async with searching(*script, web={"/search": reply}) as served:
        response = await served.ask(
            tool={"filters": {"allowed_domains": ["A.example."]}}, include=["web_search_call.action.sources"]
        )
        assert "evil" not in served.results_of()
        (asked,) = served.web.requests_of("/search")
    assert asked.query["q"] == "rain site:a.example"
    assert [each["url"] for each in response["output"][0]["action"]["sources"]] == found[:2]
    (annotation,) = items_of(response, "message")[0]["content"][0]["annotations"]
    assert annotation["url"] == found[0]


BAD_TOOLS: Final[dict[str, tuple[Json, str]]] = {
    "a scheme": ({"filters": {"allowed_domains": ["https://a.example"]}}, "tools[0].filters.allowed_domains[0]"),
    "a path": ({"filters": {"blocked_domains": ["ok.example", "a.example/x"]}}, "tools[0].filters.blocked_domains[1]"),
    "an empty host": ({"filters": {"allowed_domains": [""]}}, "tools[0].filters.allowed_domains[0]"),
    "no list": ({"filters": {"allowed_domains": "a.example"}}, "tools[0].filters.allowed_domains"),
    "too many": ({"filters": {"allowed_domains": ["a.example"] * 101}}, "tools[0].filters.allowed_domains"),
    "a wildcard": ({"filters": {"allowed_domains": ["*.a.example"]}}, "tools[0].filters.allowed_domains[0]"),
    "an unknown filter": ({"filters": {"allow_domains": ["a.example"]}}, "tools[0].filters.allow_domains"),
    "no filters": ({"filters": []}, "tools[0].filters"),
    "a size": ({"search_context_size": "huge"}, "tools[0].search_context_size"),
    "a place": ({"user_location": "here"}, "tools[0].user_location"),
    "a city": ({"user_location": {"city": 3}}, "tools[0].user_location.city"),
}


@pytest.mark.parametrize(("tool", "param"), BAD_TOOLS.values(), ids=BAD_TOOLS)
async def test_a_malformed_search_is_refused_before_the_model_is_asked(tool: Json, param: str) -> None:
    async with searching(*SEARCHED) as served:
        with pytest.raises(openai.BadRequestError) as refused:
            await served.ask(tool=tool)
        assert served.gateway.model.requests == []
    assert refused.value.param == param


BAD_VALUES: Final[dict[str, list[Any]]] = {
    "user_location": [[], ["DE"], "", "DE", 0, 5, False, True],
    **{
        f"user_location.{key}": [5, 0, 1.5, True, False, [], ["DE"], {}, {"code": "DE"}]
        for key in ("country", "city", "region", "timezone")
    },
    "search_context_size": [["low"], [], {"low": 1}, {}, 0, 5, 1.5, True, False, "", "Low", " low", "none"],
    "max_uses": ["x", "3", "", [1], [], {"a": 1}, {}, 0, -3, 1.5, 2.0, True, False],
    "external_web_access": [0, 1, 0.0, "false", "true", "no", "", [], {}, [False]],
}
"""Keys of the tool, and the values that each of them may not have."""


@pytest.mark.parametrize("engine", ["brave", "tavily", "searxng"])
async def test_each_key_with_a_value_that_says_nothing_is_named(engine: str) -> None:
    async with searching(*SEARCHED, settings={"engine": engine, "key": "sesame"}) as served:
        for path, values in BAD_VALUES.items():
            key, _, inner = path.partition(".")
            for value in values:
                with pytest.raises(openai.BadRequestError) as refused:
                    await served.ask(tool={key: {inner: value} if inner else value})
                assert refused.value.param == f"tools[0].{path}", value
                assert refused.value.code == ("invalid_value" if key == "search_context_size" else "invalid_type"), (
                    path,
                    value,
                )
        assert served.gateway.model.requests == []


@pytest.mark.parametrize(
    "tool",
    [
        {"search_context_size": None, "max_uses": None, "user_location": None, "external_web_access": None},
        {"search_context_size": "high", "max_uses": 1, "user_location": {"country": None, "city": ""}},
        {"search_context_size": "low", "max_uses": 10**15, "user_location": {}},
    ],
    ids=["null", "set", "a large limit"],
)
async def test_keys_that_say_nothing_are_as_if_they_were_absent(tool: Json) -> None:
    async with searching(*SEARCHED) as served:
        response = await served.ask(tool=tool)
    assert items_of(response, "web_search_call")[0]["status"] == "completed"


async def test_a_request_limits_its_searches() -> None:
    rounds = [chat_calls(search("rain")), chat_calls(search("snow")), chat_text("Yes.")]
    async with searching(*rounds) as served:
        response = await served.ask(tool={"max_uses": 1})
        assert len(served.web.requests_of("/search")) == 1
        assert served.results_of().startswith("max_uses_exceeded: this response may search 1 times")
    assert [item["status"] for item in items_of(response, "web_search_call")] == ["completed", "failed"]


async def test_two_searches_in_one_request_are_refused() -> None:
    async with searching(*SEARCHED) as served:
        with pytest.raises(openai.BadRequestError) as refused:
            await served.gateway.ask({"type": "web_search"}, {"type": "web_search_preview"})
    assert (refused.value.param, refused.value.code) == ("tools[1]", "duplicate_tool")


async def test_a_search_that_must_stay_offline_is_left_out() -> None:
    async with searching(chat_text("Yes.")) as served:
        raw = await served.gateway.client.responses.with_raw_response.create(
            model="m", input="Hi", tools=[{"type": "web_search", "external_web_access": False}]
        )
        assert "tools" not in await served.gateway.last_request()
    assert "web_search left out" in raw.headers["x-gateway-loss"]


@pytest.mark.parametrize(
    ("kind", "choice"),
    [
        ("web_search", {"type": "web_search"}),
        ("web_search_preview", {"type": "web_search_preview"}),
        ("web_search", "required"),
        ("web_search", {"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]}),
    ],
)
async def test_a_forced_search_without_an_engine_names_the_key_to_set(kind: str, choice: Any) -> None:
    async with searching(chat_text("Yes."), settings={"engine": None, "url": None}) as served:
        with pytest.raises(openai.BadRequestError) as refused:
            await served.gateway.ask({"type": kind}, tool_choice=choice)
        raw = await served.gateway.client.responses.with_raw_response.create(
            model="m", input="Hi", tools=[{"type": "web_search"}]
        )
    assert str(refused.value.param).startswith("tool_choice")
    assert "tools.web_search.engine" in str(refused.value)
    assert "web_search left out" in raw.headers["x-gateway-loss"]


async def test_a_forced_search_comes_first_and_once() -> None:
    async with searching(*SEARCHED) as served:
        # The SDK's types have the choice of the older search only.
        await served.gateway.ask({"type": "web_search_preview"}, tool_choice={"type": "web_search_preview"})
        first, second = (request.json for request in served.gateway.model.requests)
    assert first["tool_choice"] in ("required", {"type": "function", "function": {"name": "web_search"}})
    assert second["tool_choice"] == "auto"


async def test_a_function_of_the_client_keeps_its_name() -> None:
    own: Any = {"type": "function", "name": "web_search", "parameters": {"type": "object", "properties": {}}}
    async with searching(chat_text("Yes.")) as served:
        await served.gateway.ask({"type": "web_search"}, own)
        names = [each["function"]["name"] for each in (await served.gateway.last_request())["tools"]]
    assert names[0] == "web_search"
    assert [name for name in names if name.startswith("web_search_")] != []


async def test_a_model_can_be_given_the_search_with_every_request() -> None:
    models = {"m": {"provider": "up", "tools": {"web_search": True}}}
    async with searching(*SEARCHED, *SEARCHED, models=models) as served:
        response = (await served.gateway.client.responses.create(model="m", input="Hi")).model_dump()
        completion = await served.gateway.client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "Hi"}]
        )
    assert [item["type"] for item in response["output"]] == ["web_search_call", "message"]
    assert link(served.rain) in (completion.choices[0].message.content or "")


async def test_the_next_turn_reads_the_results_and_its_numbers_run_on(tmp_path: Path) -> None:
    other = json_reply({"results": [{"url": "https://snow.example/", "title": "Snow", "content": "It snows."}]})
    scripts = (*SEARCHED, chat_calls(search("snow")), chat_text("Rain 【1】, snow 【2】."))
    async with searching(*scripts, store={"url": ready_sqlite(tmp_path / "state.db")}) as served:
        first = await served.ask()
        served.web.replies["/search"] = other
        second = await served.ask(previous_response_id=first["id"], input="And snow?")
        messages = (await served.gateway.last_request())["messages"]
        listed = await served.gateway.client.responses.retrieve(
            second["id"], include=["web_search_call.action.sources"]
        )
    assert "【1】 Rain" in messages[2]["content"]
    assert "【2】 Snow" in messages[-1]["content"]
    annotations = items_of(second, "message")[0]["content"][0]["annotations"]
    assert [each["url"] for each in annotations] == [served.rain, "https://snow.example/"]
    assert listed.model_dump()["output"][0]["action"]["sources"][0]["url"] == "https://snow.example/"


async def test_a_client_that_keeps_the_history_may_send_it_back() -> None:
    async with searching(*SEARCHED, chat_text("Rain 【1】."), chat_text("Rain 【1】.")) as served:
        first = await served.ask(store=False, include=["web_search_call.action.sources"])
        again = await served.ask(input=[*first["output"], {"role": "user", "content": "Sure?"}])
        bare = [{key: item[key] for key in item if key != "encrypted_content"} for item in first["output"]]
        plain = await served.ask(input=[*bare, {"role": "user", "content": "Sure?"}])
        sealed, unsealed = (request.json["messages"][1]["content"] for request in served.gateway.model.requests[-2:])
    assert "It rains [9] today." in sealed, "what the model read is sealed in the item"
    assert unsealed == f"【1】 Rain {served.rain}", "without it, the sources are what is known"
    for response in (again, plain):
        assert items_of(response, "message")[0]["content"][0]["annotations"][0]["url"] == served.rain
