"""`truncation: auto` before a Responses upstream: the request is relayed, also after it was truncated."""

from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI, BadRequestError

from tests.context.test_truncation import HISTORY, STREAMED, Json, create_response
from tests.upstream import ScriptedUpstream, json_reply, responses_sse
from tests.upstream.builders import either, error_reply, response_snapshot, responses_text
from tests.upstream.script import Exchange, Script

FURTHER: Json = {"max_tool_calls": 3, "invented": {"deep": [1]}}


class ResponsesReader:
    """Replies "ok", and refuses inputs with too many items, in the form of `refusal`."""

    def __init__(self) -> None:
        self.room = 100
        self.refusal = "status"
        self.bodies: list[Json] = []

    async def __call__(self, exchange: Exchange) -> None:
        self.bodies.append(exchange.request.json)
        overflow = {"code": "context_length_exceeded", "message": "the input is too long"}
        failed = response_snapshot("failed", error=overflow)
        created = {"type": "response.created", "response": response_snapshot("in_progress")}
        refusals: dict[str, Script] = {
            "status": error_reply(400, overflow["message"], code=overflow["code"]),
            "reply": either(
                responses_sse([created, {"type": "response.failed", "response": failed}]), json_reply(failed)
            ),
            "other": error_reply(400, "no such thing", code="odd"),
        }
        fits = len(exchange.request.json["input"]) <= self.room
        await (responses_text("o", "k") if fits else refusals[self.refusal])(exchange)


@pytest.fixture
def reader(upstream: ScriptedUpstream) -> ResponsesReader:
    reader = ResponsesReader()
    upstream.on("/responses", reader)
    return reader


async def ask(client: AsyncOpenAI, *, stream: bool, **more: Any) -> tuple[str | None, Any]:
    extra_body = {**FURTHER, "model": "responses", **more.pop("extra_body", {})}
    return await create_response(client, stream=stream, truncation="auto", extra_body=extra_body, **more)


@STREAMED
async def test_an_input_within_the_context_is_relayed_whole(
    client: AsyncOpenAI, reader: ResponsesReader, stream: bool
) -> None:
    lost, response = await ask(client, stream=stream)
    assert (lost, response.truncation, response.output_text) == (None, "auto", "ok")
    (body,) = reader.bodies
    assert {name: body[name] for name in FURTHER} == FURTHER
    assert "truncation" not in body, "the gateway does it"
    assert len(body["input"]) == len(HISTORY)


@pytest.mark.parametrize("refusal", ["status", "reply"])
@pytest.mark.parametrize("store", [True, False], ids=["stored", "not stored"])
@STREAMED
async def test_an_input_over_the_context_is_relayed_without_its_beginning(
    client: AsyncOpenAI, reader: ResponsesReader, refusal: str, store: bool, stream: bool
) -> None:
    reader.room, reader.refusal = 7, refusal
    lost, response = await ask(client, stream=stream, store=store)
    assert lost == "input=truncated"
    assert (response.status, response.truncation, response.output_text) == ("completed", "auto", "ok")
    assert len(reader.bodies) > 1
    body = reader.bodies[-1]
    assert {name: body[name] for name in FURTHER} == FURTHER
    assert body["input"][0]["role"] == "system"
    assert [item.get("type") for item in body["input"][-3:-1]] == ["function_call", "function_call_output"]
    assert "and now?" in str(body["input"][-1])


@STREAMED
@pytest.mark.parametrize("refusal", ["status", "reply"])
async def test_items_that_must_stay_and_do_not_fit_are_refused(
    client: AsyncOpenAI, reader: ResponsesReader, refusal: str, stream: bool
) -> None:
    reader.room, reader.refusal = 1, refusal
    with pytest.raises(BadRequestError) as refused:
        await ask(client, stream=stream)
    assert refused.value.code == "context_length_exceeded"
    assert 1 < len(reader.bodies) <= 6


@STREAMED
async def test_another_refusal_is_final(client: AsyncOpenAI, reader: ResponsesReader, stream: bool) -> None:
    reader.room, reader.refusal = 1, "other"
    with pytest.raises(BadRequestError, match="no such thing"):
        await ask(client, stream=stream)
    assert len(reader.bodies) == 1


async def test_tools_in_the_input_are_never_cut(client: AsyncOpenAI, reader: ResponsesReader) -> None:
    reader.room = 8
    tools = {"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "f"}]}
    await ask(client, stream=False, extra_body={"input": [tools, *HISTORY]})
    assert reader.bodies[-1]["input"][0] == tools


async def test_a_text_is_the_whole_input(client: AsyncOpenAI, reader: ResponsesReader) -> None:
    reader.room = 1
    with pytest.raises(BadRequestError):
        await ask(client, stream=False, extra_body={"input": "and now?"})
    assert [body["input"] for body in reader.bodies] == ["and now?"]


async def test_truncation_on_a_relay_is_stored_with_the_response(client: AsyncOpenAI, reader: ResponsesReader) -> None:
    reader.room = 7
    _, response = await ask(client, stream=True)
    stored: Any = await client.responses.with_raw_response.retrieve(response.id)
    assert stored.headers["x-gateway-loss"] == "input=truncated"
    assert (await client.responses.input_items.list(response.id, limit=100)).data[-1].type == "message"


async def test_an_upstream_with_truncation_gets_the_parameter(client: AsyncOpenAI, reader: ResponsesReader) -> None:
    await ask(client, stream=False, extra_body={"model": "openai"})
    assert reader.bodies[-1]["truncation"] == "auto"


async def test_compaction_remains_with_the_gateway(client: AsyncOpenAI, reader: ResponsesReader) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        managed = [{"type": "compaction", "compact_threshold": 100_000}]
        body = {"model": "responses", "input": "Hi", "context_management": managed, "truncation": "auto"}
        reply = await http.post(f"{client.base_url}responses", json=body)
    assert reply.status_code == 200
    assert "context_management" not in reader.bodies[-1]
