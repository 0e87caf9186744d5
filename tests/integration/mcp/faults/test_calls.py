"""MCP servers that break, stall or reply with nonsense during a call: the model reads the reason and continues."""

import asyncio
import base64
import re
from functools import partial
from pathlib import Path

import pytest

from tests.databases import ready_sqlite
from tests.integration.mcp.tool_gateway import LOOK_UP, call_of, error_text, hosting, items_of, mcp_tool
from tests.mcp_script import LOOK_UP as LOOK_UP_TOOL
from tests.mcp_script import Era, answer, list_result, rpc_error, scripted_mcp, sse_answer, sse_frame, text_result
from tests.mcp_server import PIXEL, mcp_server
from tests.polling import wait_until
from tests.upstream import Reply, Reset, chat_calls, chat_text
from tests.upstream.builders import JSON, SSE, Json, json_reply
from tests.upstream.script import Close, Exchange, Script, reset

HTML = {"content-type": "text/html"}
ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])


@ERAS
@pytest.mark.parametrize(
    "death",
    [
        reset,
        Reply(headers=JSON, body=[b'{"jsonrpc"', Reset()]),
        Reply(headers=SSE, body=[b": hello\n\n", Reset()]),
        Reply(headers=SSE, body=[b": hello\n\n", Close()]),
        Reply(headers=SSE, body=b": hello\n\n"),
    ],
    ids=["before the head", "in the body", "in the stream", "cut stream", "empty stream"],
)
async def test_a_server_that_dies_in_a_call_is_an_error_and_the_call_is_not_repeated(death: Script, era: Era) -> None:
    model = [chat_calls(LOOK_UP), chat_calls(LOOK_UP), chat_text("Done.")]
    async with scripted_mcp([death, answer(text_result("found"))], era=era) as server, hosting(*model) as gateway:
        response = await gateway.ask(mcp_tool(server.url))
        first, second = items_of(response, "mcp_call")
        assert (first["status"], first["error"]["type"]) == ("failed", "mcp_protocol_error")
        assert first["error"]["message"] == "the connection closed before the answer; the call was not repeated"
        assert (second["status"], second["output"]) == ("completed", "found"), "the next call has a connection"
        assert len(server.calls) == 2


@ERAS
async def test_a_call_that_dies_does_not_harm_another_one(era: Era) -> None:
    other = asyncio.Event()

    async def die_first(exchange: Exchange) -> None:
        if exchange.request.json["params"]["arguments"] == {"n": 1}:
            exchange.reset()
            other.set()
        else:
            await other.wait()
            await answer(text_result("found"))(exchange)

    model = [chat_calls(("lookup_look_up", '{"n": 1}'), ("lookup_look_up", '{"n": 2}')), chat_text("Done.")]
    async with scripted_mcp(die_first, era=era) as server, hosting(*model) as gateway:
        calls = items_of(await gateway.ask(mcp_tool(server.url)), "mcp_call")
    assert [call["status"] for call in calls] == ["failed", "completed"]


@ERAS
async def test_a_silent_call_ends_at_its_deadline_and_is_cancelled_at_the_server(era: Era) -> None:
    async def answer_second(exchange: Exchange) -> None:
        if exchange.request.json["params"]["arguments"] == {"n": 1}:
            await exchange.request.closed
        else:
            await answer(text_result("found"))(exchange)

    model = [chat_calls(("lookup_look_up", '{"n": 1}'), ("lookup_look_up", '{"n": 2}')), chat_text("Done.")]
    async with scripted_mcp(answer_second, era=era) as server, hosting(*model, mcp={"call_deadline_s": 5}) as gateway:
        response = await gateway.ask(mcp_tool(server.url))
        silent, other = items_of(response, "mcp_call")
        assert silent["error"]["type"] == "mcp_protocol_error"
        assert silent["error"]["message"] == "timeout: no answer within 5 s"
        assert other["output"] == "found", "other calls are not blocked"
        # The two calls have connections of their own, so either may arrive first.
        (request,) = [call for call in server.calls if call.json["params"]["arguments"] == {"n": 1}]
        if era == "legacy":
            (cancelled, *_) = await wait_until(server.received, "notifications/cancelled")
            assert cancelled.json["params"]["requestId"] == request.json["id"]
        await wait_until(request.closed.done)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503])
async def test_an_http_error_is_the_error_of_the_call(status: int) -> None:
    page = Reply(status, HTML, b"<h1>Sorry</h1>\n" + b"x" * 2000, framing="length")
    async with scripted_mcp(page) as server, hosting() as gateway:
        call = call_of(await gateway.ask(mcp_tool(server.url)))
        assert call["status"] == "failed"
        assert (call["error"]["type"], call["error"]["code"]) == ("http_error", status)
        assert "<h1>Sorry</h1> xxx" in call["error"]["message"]
        assert len(call["error"]["message"]) == 500
        assert "<h1>Sorry</h1>" in (await gateway.last_request())["messages"][-1]["content"]


async def test_a_page_instead_of_json_is_an_http_error() -> None:
    async with scripted_mcp(Reply(200, HTML, b"<h1>Log in</h1>")) as server, hosting() as gateway:
        error = call_of(await gateway.ask(mcp_tool(server.url)))["error"]
    assert (error["type"], error["code"]) == ("http_error", 200)
    assert error["message"] == "the server answered with text/html instead of JSON-RPC: <h1>Log in</h1>"


async def test_a_json_rpc_error_is_one_whatever_its_http_status() -> None:
    for status in (200, 400):
        async with scripted_mcp(rpc_error(-32602, "no such city", status)) as server, hosting() as gateway:
            error = call_of(await gateway.ask(mcp_tool(server.url)))["error"]
        assert error == {"type": "mcp_protocol_error", "code": -32602, "message": "no such city"}


@pytest.mark.parametrize(
    "gone",
    [
        json_reply({}, 404),
        rpc_error(-32600, "Session not found", 404),
        rpc_error(-32600, "Session terminated"),
        rpc_error(-32600, "Session terminated", 400),
    ],
    ids=["404", "404 with an error", "terminated", "terminated with 400"],
)
async def test_a_lost_session_is_replaced_and_its_call_is_not_repeated(gone: Script) -> None:
    model = [chat_calls(LOOK_UP), chat_calls(LOOK_UP), chat_text("Done.")]
    async with scripted_mcp([gone, answer(text_result("found"))], era="legacy") as server, hosting(*model) as gateway:
        first, second = items_of(await gateway.ask(mcp_tool(server.url)), "mcp_call")
        assert "outcome of the call is unknown, and it was not repeated" in first["error"]["message"]
        assert (first["error"]["type"], first["error"]["code"]) == ("mcp_protocol_error", -32600)
        assert second["output"] == "found"
        assert (len(server.calls), len(server.received("initialize"))) == (2, 2)


@pytest.mark.parametrize(
    "nonsense",
    [
        answer({"content": "not a list"}),
        answer({"content": [{"type": "hologram"}]}),
        Reply(headers=JSON, body=b"[1, 2"),
        Reply(headers=SSE, body=b"data: nonsense\n\n"),
    ],
    ids=["content", "type", "json", "event"],
)
@ERAS
async def test_a_result_that_does_not_follow_the_specification_is_an_error(nonsense: Script, era: Era) -> None:
    async with scripted_mcp(nonsense, era=era) as server, hosting() as gateway:
        call = call_of(await gateway.ask(mcp_tool(server.url)))
    assert error_text(call) == "invalid_result: the server's answer does not follow the protocol"


async def test_a_compressed_answer_is_not_unpacked() -> None:
    bomb = Reply(200, {**JSON, "content-encoding": "gzip"}, b"\x1f\x8b")
    async with scripted_mcp(bomb) as server, hosting() as gateway:
        call = call_of(await gateway.ask(mcp_tool(server.url)))
    assert error_text(call) == "invalid_result: the answer is compressed, which was not asked for"


async def test_structured_content_that_does_not_fit_its_schema_is_an_error_with_the_path_and_the_text() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    tool = {**LOOK_UP_TOOL, "outputSchema": schema}
    result = text_result("a large city", structuredContent={"city": {"size": "large"}})
    async with (
        scripted_mcp(answer(result), methods={"tools/list": answer(list_result(tool))}) as server,
        hosting() as gateway,
    ):
        text = error_text(call_of(await gateway.ask(mcp_tool(server.url))))
    assert text.startswith(
        "invalid_result: the result does not follow the tool's output schema: structuredContent.city.size"
    )
    assert text.endswith("\na large city")


@pytest.mark.parametrize("framing", ["json", "stream", "resumable stream"])
@ERAS
async def test_a_result_that_is_too_large_is_cut_off_at_the_limit(framing: str, era: Era) -> None:
    sent = 0

    async def flood(exchange: Exchange) -> None:
        nonlocal sent
        start = {"json": b'{"x": "', "stream": b"data: ", "resumable stream": b"id: 1\ndata:\n\ndata: "}
        await exchange.send(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: ")
        await exchange.send(b"application/json" if framing == "json" else b"text/event-stream")
        await exchange.send(b"\r\n\r\n" + start[framing])
        for _ in range(4000):
            await exchange.send(b"x" * 65_536)
            sent += 65_536

    async with scripted_mcp(flood, era=era) as server, hosting(mcp={"max_result_mb": 1}) as gateway:
        call = call_of(await gateway.ask(mcp_tool(server.url)))
        await wait_until(server.calls[0].closed.done)
    assert error_text(call) == "result_too_large: the server's answer is larger than 1 MiB (tools.mcp.max_result_mb)"
    assert sent < 32 * 1024 * 1024


async def test_the_beginning_of_a_result_that_is_too_large_is_used_and_marked_as_cut() -> None:
    text = "".join(f"row {number}, " for number in range(200_000))
    async with scripted_mcp(answer(text_result(text))) as server, hosting(mcp={"max_result_mb": 1}) as gateway:
        error = error_text(call_of(await gateway.ask(mcp_tool(server.url))))
        read = (await gateway.last_request())["messages"][-1]["content"]
    limit, mark, beginning = error.split("\n")
    assert limit == "result_too_large: the server's answer is larger than 1 MiB (tools.mcp.max_result_mb)"
    assert mark == "[The beginning of the result, which was cut:]"
    assert text.startswith(beginning)
    assert 50_000 < len(beginning) < 65_536
    assert read == error


@pytest.mark.parametrize("answers", [answer, sse_answer])
async def test_a_large_result_within_the_limit_is_whole(answers: object) -> None:
    text = "x" * 3_000_000
    async with scripted_mcp(answers(text_result(text))) as server, hosting() as gateway:  # type: ignore[operator]
        call = call_of(await gateway.ask(mcp_tool(server.url)))
        assert call["output"] == text
        read = (await gateway.last_request())["messages"][-1]["content"]
        assert 100_000 <= len(read) < 101_000, "the model reads its beginning and its end"


async def test_a_model_reads_on_in_a_result_that_was_cut_and_later_turns_do_too() -> None:
    text = "\n".join(f"row {number}" for number in range(1000))
    call = {"type": "mcp_call", "id": "mcp_1", "server_label": "lookup", "name": "look_up", "arguments": "{}"}
    past = [{**call, "output": text}, {"role": "user", "content": "And?"}]
    reading = chat_calls(("read_result", '{"id": "mcp_1", "pattern": "^row 777$"}'))
    async with scripted_mcp() as server, hosting(reading, chat_text("Done."), mcp={"result_chars": 1000}) as gateway:
        response = await gateway.ask(mcp_tool(server.url), input=past)
        read = call_of(response)
        assert (read["server_label"], read["name"], server.calls) == ("gateway", "read_result", [])
        assert read["output"] == f"[offset {text.index('row 777')}] row 777"
        first, last = gateway.model.requests[0].json, await gateway.last_request()
        (cut,) = [message["content"] for message in first["messages"] if message["role"] == "tool"]
        assert len(cut) < 1200
        assert "Read them with read_result, id 'mcp_1', offset 900" in cut
        assert [tool["function"]["name"] for tool in first["tools"]] == ["lookup_look_up", "read_result"]
        assert last["messages"][-1]["content"] == read["output"]


@pytest.mark.parametrize("sees", [True, False])
async def test_an_image_reaches_the_model_as_an_image_or_as_a_note_and_never_as_text(sees: bool) -> None:
    with mcp_server() as server:
        models = {"m": {"provider": "up", "capabilities": {"images": sees}}}
        async with hosting(chat_calls(("lookup_picture", "{}")), chat_text("Nice."), models=models) as gateway:
            call = call_of(await gateway.ask(mcp_tool(server.url)))
            assert PIXEL not in str(call)
            messages = (await gateway.last_request())["messages"]
    parts = [part for message in messages if isinstance(message.get("content"), list) for part in message["content"]]
    images = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    assert images == ([f"data:image/png;base64,{PIXEL}"] if sees else [])
    assert PIXEL not in "".join(part.get("text", "") for part in parts)
    assert call["output"] == "[image: image/png]"
    if not sees:
        assert PIXEL not in str(messages)


DATA = base64.b64encode(b"\0" * 3000).decode()


@pytest.mark.parametrize(
    ("content", "note"),
    [
        ({"type": "audio", "data": DATA, "mimeType": "audio/wav"}, "[audio: audio/wav]"),
        ({"type": "resource", "resource": {"uri": "file:///a.bin", "blob": DATA}}, "[resource: file:///a.bin]"),
        ({"type": "resource", "resource": {"uri": "file:///a.txt", "text": "hello"}}, "hello"),
        ({"type": "image", "data": "%%%", "mimeType": "image/png"}, "[image: image/png]"),
        ({"type": "image", "data": DATA, "mimeType": "text/html"}, "[image: text/html]"),
    ],
)
async def test_unreadable_content_becomes_a_note(content: Json, note: str) -> None:
    models = {"m": {"provider": "up", "capabilities": {"images": True}}}
    async with (
        scripted_mcp(answer({"content": [content], "resultType": "complete"})) as server,
        hosting(models=models) as gateway,
    ):
        assert call_of(await gateway.ask(mcp_tool(server.url)))["output"] == note
        assert DATA not in str((await gateway.last_request())["messages"])


async def test_a_link_is_text_and_is_not_fetched() -> None:
    async with scripted_mcp() as target:
        link = {"type": "resource_link", "name": "secrets", "uri": target.url}
        async with scripted_mcp(answer({"content": [link], "resultType": "complete"})) as server, hosting() as gateway:
            assert call_of(await gateway.ask(mcp_tool(server.url)))["output"] == f"[resource_link: {target.url}]"
        assert target.upstream.accepted == 0


async def test_a_token_that_expires_in_a_call_is_named_and_the_tools_stay() -> None:
    expired = json_reply({}, 401, {"www-authenticate": 'Bearer error="invalid_token"'})
    model = [chat_calls(LOOK_UP), chat_calls(LOOK_UP), chat_text("Done.")]
    async with scripted_mcp([expired, answer(text_result("found"))]) as server, hosting(*model) as gateway:
        response = await gateway.ask(mcp_tool(server.url, authorization="a-token-of-mine"))
        first, second = items_of(response, "mcp_call")
    assert (first["error"]["type"], first["error"]["code"]) == ("http_error", 401)
    assert first["error"]["message"].startswith("authorization_expired: ")
    assert second["output"] == "found"


async def test_a_scope_that_is_missing_is_named() -> None:
    challenge = 'Bearer error="insufficient_scope", scope="files:read files:write", resource_metadata="http://x/"'
    async with scripted_mcp(json_reply({}, 403, {"www-authenticate": challenge})) as server, hosting() as gateway:
        error = call_of(await gateway.ask(mcp_tool(server.url)))["error"]
    assert (error["type"], error["code"]) == ("http_error", 403)
    assert error["message"].startswith("insufficient_scope: the token lacks the scope 'files:read files:write'")


@ERAS
async def test_requests_of_a_server_for_sampling_or_roots_are_refused(era: Era) -> None:
    sampling = {"messages": [], "maxTokens": 100}
    questions: list[Json] = [
        {"jsonrpc": "2.0", "id": "q1", "method": "sampling/createMessage", "params": sampling},
        {"jsonrpc": "2.0", "id": "q2", "method": "roots/list"},
    ]

    async def ask_and_wait(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n")
        for question in questions:
            await exchange.send(sse_frame(question))
            await wait_until(partial(server.received_replies, question["id"]))
        await exchange.send(
            sse_frame({"jsonrpc": "2.0", "id": exchange.request.json["id"], "result": text_result("found")})
        )

    async with scripted_mcp(ask_and_wait, era=era) as server, hosting() as gateway:
        assert call_of(await gateway.ask(mcp_tool(server.url)))["output"] == "found"
        for question in questions:
            (reply,) = server.received_replies(question["id"])
            assert reply["error"]["code"] == -32601, "method not found"
        capabilities = str([request.json.get("params") for request in server.upstream.requests if request.content])
        for capability in ("sampling", "roots", "elicitation"):
            assert f"'{capability}': {{" not in capabilities


@ERAS
async def test_a_flood_of_requests_of_a_server_ends_its_call(era: Era) -> None:
    questions = [{"jsonrpc": "2.0", "id": f"q{number}", "method": "ping"} for number in range(500)]
    async with scripted_mcp(sse_answer(text_result("found"), *questions), era=era) as server, hosting() as gateway:
        text = error_text(call_of(await gateway.ask(mcp_tool(server.url))))
        assert text == "invalid_result: the server sent more than 64 requests"
        assert len(server.upstream.requests) < 100


@ERAS
async def test_a_flood_of_notifications_does_not_count(era: Era) -> None:
    async def flood(exchange: Exchange) -> None:
        params = {"level": "info", "data": "x" * 1000}
        notice = sse_frame({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
        progress = {"progressToken": exchange.request.json["id"], "progress": 1}
        notice += sse_frame({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})
        await exchange.send(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n")
        for _ in range(100):
            await exchange.send(notice * 100)
        result = {"jsonrpc": "2.0", "id": exchange.request.json["id"], "result": text_result("found")}
        await exchange.send(sse_frame(result))

    async with scripted_mcp(flood, era=era) as server, hosting(mcp={"max_result_mb": 1}) as gateway:
        assert call_of(await gateway.ask(mcp_tool(server.url)))["output"] == "found"


@ERAS
async def test_a_second_and_a_late_answer_to_a_call_are_dropped(era: Era) -> None:
    async def answer_twice(exchange: Exchange) -> None:
        answered = exchange.request.json["id"]
        messages = [{"jsonrpc": "2.0", "id": answered, "result": text_result(text)} for text in ("first", "second")]
        stale = {"jsonrpc": "2.0", "id": answered - 1 if isinstance(answered, int) else 0, "result": text_result("old")}
        await Reply(headers=SSE, body=[sse_frame(message) for message in (stale, *messages)])(exchange)

    model = [chat_calls(LOOK_UP), chat_calls(("lookup_look_up", '{"n": 2}')), chat_text("Done.")]
    async with scripted_mcp(answer_twice, era=era) as server, hosting(*model) as gateway:
        calls = items_of(await gateway.ask(mcp_tool(server.url)), "mcp_call")
        assert [call["output"] for call in calls] == ["first", "first"]
        assert len(server.calls) == 2


async def test_a_loop_that_takes_too_long_ends_its_call_and_the_model_answers() -> None:
    async def never(exchange: Exchange) -> None:
        await exchange.request.closed

    model = [chat_calls(LOOK_UP), chat_text("Sorry.")]
    async with scripted_mcp(never) as server, hosting(*model, mcp={"loop_deadline_s": 5}) as gateway:
        call = call_of(await gateway.ask(mcp_tool(server.url)))
        assert re.match(r"timeout: no answer within [0-4]\.", call["error"]["message"]), "what is left of its time"
        assert "tools" not in await gateway.last_request(), "the model has to answer"


async def test_the_deadline_of_loops_does_not_end_a_background_response(tmp_path: Path) -> None:
    store = {"url": ready_sqlite(tmp_path / "state.db")}
    async with (
        scripted_mcp(answer(text_result("found"))) as server,
        hosting(mcp={"loop_deadline_s": 0.001}, store=store) as gateway,
    ):
        created = await gateway.ask(mcp_tool(server.url), background=True)
        while created["status"] in ("queued", "in_progress"):
            created = (await gateway.client.responses.retrieve(created["id"])).model_dump()
        assert call_of(created)["output"] == "found"
