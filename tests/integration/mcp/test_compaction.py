"""Contexts with hosted tools that are compacted: at the start of a response, between its rounds, and on request."""

from pathlib import Path
from typing import Any

import pytest

from tests.context.small_window_model import asks_for_a_summary, texts_by_role, usage
from tests.databases import ready_sqlite
from tests.integration.mcp.approval_gateway import answer, approving, request_of
from tests.integration.mcp.approval_gateway import kinds_of as kinds
from tests.integration.mcp.tool_gateway import Hosting, hosting, mcp_tool
from tests.mcp_script import answer as reply
from tests.mcp_script import scripted_mcp, text_result
from tests.mcp_server import CountingServer
from tests.upstream.builders import Json, chat_calls, chat_text
from tests.upstream.script import Exchange, Script

LONG = "word " * 60
SUMMARY = "Ada is 36."
LIMIT = 100
MANAGED: Any = [{"type": "compaction", "compact_threshold": LIMIT}]
QUESTION = "How old is Ada, all in all?"


def look_up(number: int) -> Script:
    return chat_calls(("lookup_look_up", f'{{"n": {number}}}'))


class CountingReader:
    """A model that counts words, writes summaries, and otherwise follows its script."""

    def __init__(self, *answers: Script) -> None:
        self.answers = [*answers]
        self.asked: list[Json] = []
        """The requests that are neither for a summary nor for a count."""
        self.summarized: list[Json] = []

    async def __call__(self, exchange: Exchange) -> None:
        body = exchange.request.json
        read = sum(len(text.split()) for _, text in texts_by_role(body))
        if asks_for_a_summary(body):
            self.summarized.append(body)
            await chat_text(SUMMARY, usage=usage(50, 5))(exchange)
        elif body.get("max_tokens") == 1:
            await chat_text("x", usage=usage(read, 1))(exchange)
        else:
            self.asked.append(body)
            await (self.answers.pop(0) if self.answers else chat_text("ok", usage=usage(read, 1)))(exchange)


def stored(folder: Path) -> Json:
    return {"url": ready_sqlite(folder / "state.db")}


def roles(body: Json) -> list[str]:
    return [role for role, _ in texts_by_role(body)]


async def test_a_context_that_grows_over_the_threshold_is_compacted_between_rounds(tmp_path: Path) -> None:
    model = CountingReader()
    async with scripted_mcp(reply(text_result(LONG))) as server, hosting(model, store=stored(tmp_path)) as gateway:
        for way in ("json", "stream", "background"):
            model.asked, model.summarized = [], []
            model.answers = [look_up(1), look_up(2), chat_text("She is 36.")]
            more: Any = {"context_management": MANAGED, "input": QUESTION}
            response = await begin(gateway, way, mcp_tool(server.url), **more)
            assert kinds(response) == ["mcp_list_tools", "mcp_call", "mcp_call", "compaction", "message"]
            assert [roles(body) for body in model.asked] == [
                ["user"],
                ["user", "assistant", "tool"],
                ["user", "user", "assistant", "tool"],
            ]
            assert texts_by_role(model.asked[-1])[0][1].endswith(SUMMARY)
            (summarized,) = model.summarized
            assert "tools" not in summarized
            assert roles(summarized) == ["assistant", "tool", "user"]
            assert response["usage"]["input_tokens"] == 9 + 9 + 50 + 9
            stored_response = (await gateway.client.responses.retrieve(response["id"])).model_dump(mode="json")
            assert stored_response["output"] == response["output"]

        lists = len(server.received("tools/list"))
        again = await gateway.ask(mcp_tool(server.url), input="And Bob?", previous_response_id=response["id"])
        assert kinds(again) == ["message"], "the list of tools is in the context still"
        assert len(server.received("tools/list")) == lists
        assert roles(model.asked[-1]) == ["user", "user", "assistant", "tool", "assistant", "user"]
        assert texts_by_role(model.asked[-1])[3][1] == LONG
        assert len(server.calls) == 6


async def begin(gateway: Hosting, way: str, tool: Any, **more: Any) -> Json:
    if way == "json":
        return await gateway.ask(tool, **more)
    if way == "stream":
        stream: Any = await gateway.client.responses.create(model="m", tools=[tool], stream=True, **more)
        events = [event.model_dump(mode="json") async for event in stream]
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        last: Json = events[-1]["response"]
        return last
    created = await gateway.ask(tool, background=True, **more)
    while created["status"] in ("queued", "in_progress"):
        created = (await gateway.client.responses.retrieve(created["id"])).model_dump(mode="json")
    return created


async def test_a_history_with_calls_is_compacted_before_the_first_round(tmp_path: Path) -> None:
    model = CountingReader(look_up(1), chat_text("She is 36.", usage=usage(150, 3)), look_up(2), chat_text("Done."))
    async with scripted_mcp(reply(text_result(LONG))) as server, hosting(model, store=stored(tmp_path)) as gateway:
        first = await gateway.ask(mcp_tool(server.url), input=QUESTION)
        more: Any = {"previous_response_id": first["id"], "context_management": MANAGED}
        second = await gateway.ask(mcp_tool(server.url), input="And Bob?", **more)
        assert kinds(second) == ["compaction", "mcp_call", "message"], "no round after it is compacted at once again"
        assert roles(model.summarized[0]) == ["user", "assistant", "tool", "assistant", "user"]
        assert len(server.received("tools/list")) == 1
        third = await gateway.ask(mcp_tool(server.url), input="On.", previous_response_id=second["id"])
        assert kinds(third) == ["message"]
        assert roles(model.asked[-1]) == ["user", "user", "assistant", "tool", "assistant", "user"]
        assert len(server.received("tools/list")) == 1


async def test_a_request_for_an_approval_outlives_a_compaction(calc: CountingServer, tmp_path: Path) -> None:
    add = chat_calls(("calc_add", '{"a": 2, "b": 3}'))
    model = CountingReader(add, chat_text("Fine.", usage=usage(150, 1)), chat_text("Well."), chat_text("It is 5."))
    async with approving(calc, tmp_path, model) as gateway:
        response = await gateway.ask("2 + 3?")
        second = await gateway.ask("Never mind.", previous_response_id=response["id"])
        third = await gateway.ask("Hello?", previous_response_id=second["id"], context_management=MANAGED)
        assert kinds(third) == ["compaction", "message"]
        assert "The user did not approve this call" in str(texts_by_role(model.asked[-1]))
        assert "The user did not approve this call" not in str(texts_by_role(model.summarized[0]))
        fourth = await gateway.ask([answer(request_of(response))], previous_response_id=third["id"])
        assert kinds(fourth) == ["mcp_call", "message"]
        assert fourth["output"][0]["output"] == "5"
        assert calc.runs["add"] == 1


async def test_a_compacted_window_of_a_client_has_its_calls_lists_and_requests(
    calc: CountingServer, tmp_path: Path
) -> None:
    adds = chat_calls(("calc_add", '{"a": 2, "b": 3}'))
    model = CountingReader(adds, chat_text("It is 5."), chat_text("Hello."))
    async with approving(calc, tmp_path, model) as gateway:
        first_response = await gateway.ask("2 + 3?", store=False)
        history = [{"role": "user", "content": "2 + 3?"}, *first_response["output"]]
        window = (await gateway.raw.post("/responses/compact", json={"model": "m", "input": history})).json()["output"]
        assert [item["type"] for item in window] == ["message", "compaction"]
        response = await gateway.ask([*window, answer(request_of(first_response))], store=False)
        assert kinds(response) == ["mcp_call", "message"]
        assert response["output"][0]["output"] == "5"
        history += [answer(request_of(first_response)), *response["output"]]
        window = (await gateway.raw.post("/responses/compact", json={"model": "m", "input": history})).json()["output"]
        assert roles(model.summarized[-1]) == ["user", "assistant", "tool", "assistant", "user"]
        last = await gateway.ask([*window, {"role": "user", "content": "Hi."}], store=False)
        assert kinds(last) == ["message"]
        assert calc.methods["tools/list"] == 2, "not for the last response, which has the list"


@pytest.mark.parametrize("answers", [True, False], ids=["approved with it", "approved later"])
async def test_a_trigger_compacts_without_a_call_and_approvals_wait(
    answers: bool, calc: CountingServer, tmp_path: Path
) -> None:
    model = CountingReader(chat_calls(("calc_add", '{"a": 2, "b": 3}')), chat_text("It is 5."))
    async with approving(calc, tmp_path, model) as gateway:
        first_response = await gateway.ask("2 + 3?")
        approval = [answer(request_of(first_response))]
        trigger = [*(approval if answers else []), {"type": "compaction_trigger"}]
        compacted = await gateway.ask(trigger, previous_response_id=first_response["id"])
        assert (kinds(compacted), calc.runs["add"]) == (["compaction"], 0)
        following: Any = [{"role": "user", "content": "Go on."}] if answers else approval
        response = await gateway.ask(following, previous_response_id=compacted["id"])
        assert kinds(response) == ["mcp_call", "message"]
        assert calc.runs["add"] == 1
        assert calc.methods["tools/list"] == 2, "once at first, and once more for the call that was approved"
