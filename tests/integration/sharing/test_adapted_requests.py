"""What an API adapts for its upstream is judged for the upstream that is asked, not for the first one of the name."""

from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from tests.agui_client import PATIENCE_S, AguiThread, user
from tests.faults.client_view import client
from tests.faults.upstreams.test_attempts import rejected, shared
from tests.mcp_server import CountingServer
from tests.serving import serving
from tests.upstream.builders import chat_calls, chat_text, response_snapshot, responses_sse
from tests.upstream.faults import ANSWERS, sound
from tests.upstream.script import Reply
from tests.upstream.server import ScriptedUpstream

Json = dict[str, Any]


def configure(first: str, second: str, dialects: tuple[str, str]) -> Json:
    config = shared(first, second)
    for provider, dialect in zip(config["providers"].values(), dialects, strict=True):
        provider["dialects"] = [dialect]
    return config


PARSERS: dict[str, tuple[tuple[str, str], bool, bool, str, str | None]] = {
    # dialects, whether the first one fails, strict: who answers, with which loss
    "the first parses": (("chat", "responses"), False, False, "first", None),
    "the next cannot parse": (("chat", "responses"), True, False, "second", "tool_parser=dropped"),
    "the first cannot parse": (("responses", "chat"), False, False, "first", "tool_parser=dropped"),
    "only the next parses": (("responses", "chat"), True, False, "second", None),
    "strict, only the next parses": (("responses", "chat"), False, True, "second", None),
}


@pytest.mark.parametrize("case", PARSERS)
async def test_a_tool_parser_is_lost_if_the_upstream_that_answers_has_no_text_to_parse(case: str) -> None:
    dialects, fails, strict, upstream, loss = PARSERS[case]
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(503) if fails else sound(ANSWERS[dialects[0]]))
        second.script(sound(ANSWERS[dialects[1]]))
        body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tool_parser": "hermes"}
        with serving(configure(first.url, second.url, dialects)) as running:
            async with client() as asking:
                headers = {"x-gateway-strict": "true"} if strict else {}
                reply = await asking.post(f"{running.url}/generate", json=body, headers=headers)
    assert reply.status_code == 200, reply.text
    assert (reply.headers["x-gateway-upstream"], reply.headers.get("x-gateway-loss")) == (upstream, loss)


async def test_a_strict_request_is_refused_if_no_upstream_can_use_its_parser() -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tool_parser": "hermes"}
        with serving(configure(first.url, second.url, ("responses", "responses"))) as running:
            async with client() as asking:
                reply = await asking.post(f"{running.url}/generate", json=body, headers={"x-gateway-strict": "true"})
        assert not first.requests + second.requests
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "tool_parser")


APPROVED: Json = {"status": "resolved", "payload": {"approved": True}}
REQUEST: Json = {
    "type": "mcp_approval_request",
    "id": "mcpr_upstream",
    "server_label": "calc",
    "name": "add",
    "arguments": '{"a": 2, "b": 3}',
}


def asks_for_approval() -> Reply:
    """The stream of an upstream that runs the tools itself, and asks whether it may."""
    return responses_sse(
        [
            {"type": "response.created", "response": response_snapshot("in_progress")},
            {"type": "response.output_item.added", "output_index": 0, "item": REQUEST},
            {"type": "response.output_item.done", "output_index": 0, "item": REQUEST},
            {"type": "response.completed", "response": response_snapshot("completed", [REQUEST])},
        ]
    )


def find_interrupts(events: list[Json]) -> list[str]:
    return [each["id"] for each in (events[-1].get("outcome") or {}).get("interrupts") or ()]


@pytest.mark.parametrize("is_upstream", [True, False], ids=["an upstream", "the gateway"])
async def test_an_approval_goes_to_those_who_asked_for_it(
    is_upstream: bool, tmp_path: Path, calc: CountingServer
) -> None:
    """Of two upstreams, one runs the tools itself; for the other the gateway does. The one that did not ask would be
    asked first after the answer."""
    async with ScriptedUpstream() as other, ScriptedUpstream() as asking:
        config = configure(other.url, asking.url, ("chat", "chat"))
        config["egress"] = {"allow": ["127.0.0.1"]}
        config["store"] = {"url": f"sqlite+aiosqlite:///{tmp_path}/state.db"}
        runner = config["providers"]["second" if is_upstream else "first"]
        runner |= {"dialects": ["responses"], "capabilities": {"hosted_tools": ["mcp"]}}
        if is_upstream:
            asking.script(asks_for_approval(), sound(ANSWERS["responses"]))
        else:
            asking.script(chat_calls(("calc_add", '{"a": 2, "b": 3}')), chat_text("5"))
        tool = {"type": "mcp", "server_label": "calc", "server_url": calc.url, "require_approval": "always"}
        rows = config["models"]["*"]["upstreams"]
        rows[0]["tier"], rows[1]["tier"] = 1, 0
        with serving(config) as running:
            async with httpx.AsyncClient(base_url=running.url, timeout=PATIENCE_S) as http:
                thread = AguiThread(http, forwardedProps={"model": "m", "tools": [tool]})
                (interrupt,) = find_interrupts(await thread.run(user("Add 2 and 3")))
        rows[0]["tier"], rows[1]["tier"] = 0, 1
        with serving(config) as running:
            async with httpx.AsyncClient(base_url=running.url, timeout=PATIENCE_S) as http:
                thread.http = http
                ended = await thread.run(resume=[{"interruptId": interrupt, **APPROVED}])
        assert not other.requests
        last = asking.requests[-1].json
    assert (ended[-1]["type"], find_interrupts(ended)) == ("RUN_FINISHED", [])
    assert calc.runs["add"] == (0 if is_upstream else 1)
    if is_upstream:
        answers = [item["approve"] for item in last["input"] if item["type"] == "mcp_approval_response"]
        assert answers == [True]


@pytest.mark.parametrize("order", ["the upstream first", "the gateway first"])
@pytest.mark.parametrize("is_upstream", [True, False], ids=["an upstream asked", "the gateway asked"])
async def test_an_answer_in_the_input_goes_to_those_who_asked(
    order: str, is_upstream: bool, tmp_path: Path, calc: CountingServer
) -> None:
    async with ScriptedUpstream() as runner, ScriptedUpstream() as plain:
        runner.script(asks_for_approval(), sound(ANSWERS["responses"]))
        plain.script(chat_calls(("calc_add", '{"a": 2, "b": 3}')), chat_text("5"))
        config = configure(runner.url, plain.url, ("responses", "chat"))
        config["egress"] = {"allow": ["127.0.0.1"]}
        config["store"] = {"url": f"sqlite+aiosqlite:///{tmp_path}/state.db"}
        config["providers"]["first"]["capabilities"] = {"hosted_tools": ["mcp"]}
        rows = config["models"]["*"]["upstreams"]
        if order == "the gateway first":
            rows.reverse()
        asking, other = (runner, plain) if is_upstream else (plain, runner)
        tool = {"type": "mcp", "server_label": "calc", "server_url": calc.url, "require_approval": "always"}
        asked: Json = {"model": "m", "stream": True, "tools": [tool]}
        ids: list[str] = []
        for attempt in ("ask", "answer"):
            for row in rows:  # those who did not ask come first once there is an answer
                row["tier"] = int((row["provider"] == "first") == (is_upstream == (attempt == "answer")))
            with serving(config) as running:
                async with client() as http:
                    body = asked | {"input": "Add 2 and 3"}
                    if ids:
                        answer = {"type": "mcp_approval_response", "approval_request_id": ids[-1], "approve": True}
                        body |= {"input": [answer], "previous_response_id": ids[0]}
                    reply = await http.post(f"{running.v1}/responses", json=body)
            assert "event: response.completed" in reply.text, reply.text
            ended = orjson.loads(reply.text.split("event: response.completed\ndata: ")[1].split("\n\n")[0])["response"]
            requests = [item["id"] for item in ended["output"] if item["type"] == "mcp_approval_request"]
            assert bool(requests) == (attempt == "ask"), ended["output"]
            ids = [ended["id"], *requests]
        assert (bool(asking.requests), bool(other.requests)) == (True, False)
    assert calc.runs["add"] == (0 if is_upstream else 1)
