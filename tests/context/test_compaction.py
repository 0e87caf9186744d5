"""Compaction as clients see it: by its endpoint, by a trigger item, and by the server when a context grows."""

import warnings
from pathlib import Path
from typing import Any

import pytest
from openai import APIStatusError, AsyncOpenAI, BadRequestError, InternalServerError

from tests.context.small_window_model import Reader, asks_for_a_summary, usage
from tests.databases import ready_sqlite
from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_calls, chat_text, error_reply, json_reply, responses_text

MANAGED: list[Any] = [{"type": "compaction", "compact_threshold": 40}]
LONG = "word " * 50
FUNCTION: Any = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "strict": None}


def dumped(items: Any) -> list[Any]:
    """Returns items as received. The SDK warns about user messages among outputs, for which it has no type."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return [item.to_dict() for item in items]


async def test_a_conversation_is_compacted_to_its_user_messages_and_a_summary(
    client: AsyncOpenAI, reader: Reader
) -> None:
    first = await client.responses.create(model="m", input="I am Ada.", instructions="Be brief.")
    compacted = await client.responses.compact(
        model="m", previous_response_id=first.id, input="I am 36.", instructions="Be kind."
    )
    assert (compacted.object, compacted.id.startswith("resp_")) == ("response.compaction", True)
    assert (compacted.usage.input_tokens, compacted.usage.output_tokens) == (50, 5)
    one, two, item = dumped(compacted.output)
    assert [part["content"][0]["text"] for part in (one, two)] == ["I am Ada.", "I am 36."]
    assert {part["role"] for part in (one, two)} == {"user"}
    assert (item["type"], item["id"].startswith("cmp_")) == ("compaction", True)
    assert [role for role, _ in reader.last] == ["system", "user", "assistant", "user", "user"]
    assert reader.last[0][1] == "Be kind."
    assert "tools" not in reader.bodies[-1]


async def test_nothing_of_a_compaction_is_stored(client: AsyncOpenAI) -> None:
    compacted = await client.responses.compact(model="m", input="I am Ada.")
    with pytest.raises(APIStatusError) as missing:
        await client.responses.retrieve(compacted.id)
    assert missing.value.status_code == 404


async def test_a_conversation_continues_from_its_compacted_window(client: AsyncOpenAI, reader: Reader) -> None:
    history: list[Any] = [
        {"role": "developer", "content": "Rules."},
        {"role": "user", "content": "I am Ada."},
        {"role": "assistant", "content": "Hello Ada."},
    ]
    compacted = await client.responses.compact(model="m", input=history)
    window = [*dumped(compacted.output), {"role": "user", "content": "Who am I?"}]
    second = await client.responses.create(model="m", input=window)
    rules, user, summary, question = reader.last
    assert (rules, user, question) == (("system", "Rules."), ("user", "I am Ada."), ("user", "Who am I?"))
    assert summary[1].endswith("Ada is 36.")
    await client.responses.create(model="m", previous_response_id=second.id, input="And now?")
    assert [text.split()[-1] for _, text in reader.last] == ["Rules.", "Ada.", "36.", "I?", "ok", "now?"]
    again = dumped((await client.responses.compact(model="m", previous_response_id=second.id)).output)
    assert [item["type"] for item in again] == ["message", "message", "compaction"]


async def test_a_call_without_output_survives_compaction(client: AsyncOpenAI, reader: Reader) -> None:
    reader.answers = [chat_calls(("f", "{}"))]
    first = await client.responses.create(model="m", input="Call.", tools=[FUNCTION])
    call: Any = first.output[0]
    compacted = await client.responses.compact(model="m", previous_response_id=first.id)
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "42"}
    await client.responses.create(model="m", input=[*dumped(compacted.output), output], tools=[FUNCTION])
    assert [role for role, _ in reader.last] == ["user", "user", "assistant", "tool"]


async def test_a_trigger_is_answered_with_a_compaction(client: AsyncOpenAI, reader: Reader) -> None:
    trigger: Any = {"type": "compaction_trigger"}
    input_items = [{"role": "user", "content": "I am Ada."}, trigger]
    whole = await client.responses.create(model="m", input=input_items)
    assert [item.type for item in whole.output] == ["compaction"]
    stream = await client.responses.create(model="m", input=input_items, stream=True)
    events = [event.type async for event in stream]
    assert events == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.output_item.done",
        "response.completed",
    ]
    await client.responses.create(model="m", previous_response_id=whole.id, input="Who am I?")
    (_, summary), (_, question) = reader.last
    assert (summary.split()[-1], question) == ("36.", "Who am I?")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_context_over_the_threshold_is_compacted_before_the_answer(
    client: AsyncOpenAI, reader: Reader, stream: bool
) -> None:
    first = await client.responses.create(model="m", input=LONG, context_management=MANAGED)
    assert [item.type for item in first.output] == ["message"]  # alone, a question cannot be summed up
    args: Any = {"model": "m", "previous_response_id": first.id, "input": "Who am I?", "context_management": MANAGED}
    if stream:
        events = [event async for event in await client.responses.create(**args, stream=True)]
        assert [event.sequence_number for event in events if event.type != "error"] == list(range(len(events)))
        second: Any = events[-1].response
    else:
        second = await client.responses.create(**args)
    assert [item.type for item in second.output] == ["compaction", "message"]
    assert second.usage.input_tokens == 50 + sum(len(text.split()) for _, text in reader.last)
    assert second.usage.output_tokens == 6
    assert [asks_for_a_summary(body) for body in reader.bodies] == [False, True, False]
    assert reader.last[-1] == ("user", "Who am I?")
    assert await client.responses.retrieve(second.id) == second
    third = await client.responses.create(
        model="m",
        previous_response_id=second.id,
        input="On.",
        context_management=[{"type": "compaction", "compact_threshold": 200}],
    )
    assert [item.type for item in third.output] == ["message"]
    (_, summary), *rest = reader.last
    assert summary.endswith("Ada is 36.")
    assert rest == [("user", "Who am I?"), ("assistant", "ok"), ("user", "On.")]


async def test_a_compacted_context_is_not_compacted_again_before_it_has_grown(client: AsyncOpenAI) -> None:
    previous: str | None = None
    compacted = []
    for said in ("I am Ada.", LONG, LONG, "On.", "On.", "On.", LONG, "On."):
        response = await client.responses.create(
            model="m",
            previous_response_id=previous,
            input=said,
            context_management=[{"type": "compaction", "compact_threshold": 90}],
        )
        previous = response.id
        compacted.append(response.output[0].type == "compaction")
    assert compacted == [False, False, False, True, False, False, False, False]


async def test_calls_of_bridged_tools_are_the_clients_after_a_compaction(client: AsyncOpenAI, reader: Reader) -> None:
    tool: Any = {"type": "custom", "name": "run", "description": "Runs."}
    first = await client.responses.create(model="m", input=LONG)
    reader.answers = [chat_calls(("run", '{"input": "ls"}'))]
    second = await client.responses.create(
        model="m", previous_response_id=first.id, input="Run ls.", tools=[tool], context_management=MANAGED
    )
    compaction, call = second.output
    assert (compaction.type, call.type) == ("compaction", "custom_tool_call")
    assert call.type == "custom_tool_call"
    assert call.input == "ls"


async def test_a_context_within_the_threshold_stays_as_it_is(client: AsyncOpenAI, reader: Reader) -> None:
    history: list[Any] = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}] * 3
    response = await client.responses.create(
        model="m", input=[*history, {"role": "user", "content": "On."}], context_management=MANAGED
    )
    assert [item.type for item in response.output] == ["message"]
    counting, _ = reader.bodies
    assert counting["max_tokens"] == 1


async def test_a_context_too_long_to_count_is_over_the_threshold(client: AsyncOpenAI, reader: Reader) -> None:
    history: list[Any] = [{"role": "user", "content": LONG * 2}, {"role": "assistant", "content": "ok"}]
    reader.room = 105 + 100
    input_items = [*history, {"role": "user", "content": "word " * 120}]
    response = await client.responses.create(model="m", input=input_items, context_management=MANAGED)
    assert [item.type for item in response.output] == ["compaction", "message"]


@pytest.mark.parametrize("model", ["small", "vllm"], ids=["configured", "reported by vLLM"])
async def test_without_a_threshold_three_quarters_of_a_known_window_count(
    client: AsyncOpenAI, upstream: ScriptedUpstream, model: str
) -> None:
    upstream.on("/models", json_reply({"data": [{"id": "vllm", "max_model_len": 80}]}))
    management: list[Any] = [{"type": "compaction"}]
    first = await client.responses.create(model=model, input="word " * 58)
    at_60 = await client.responses.create(
        model=model, previous_response_id=first.id, input="Hi.", context_management=management
    )
    assert [item.type for item in at_60.output] == ["message"]
    over = await client.responses.create(
        model=model, previous_response_id=at_60.id, input="Hi.", context_management=management
    )
    assert [item.type for item in over.output] == ["compaction", "message"]


BAD_SUMMARIES = {
    "empty": (chat_text(""), 502, "compaction_failed"),
    "cut": (chat_text("Ada", finish_reason="length"), 502, "compaction_failed"),
    "a call": (chat_calls(("f", "{}")), 502, "compaction_failed"),
    "refused": (error_reply(429, "slow down"), 429, "rate_limit_exceeded"),
    "broken": (json_reply({"choices": []}), 502, "upstream_truncated"),
}


@pytest.mark.parametrize(("summary", "status", "code"), BAD_SUMMARIES.values(), ids=BAD_SUMMARIES)
async def test_a_failed_summary_loses_no_history(
    client: AsyncOpenAI, reader: Reader, summary: Any, status: int, code: str
) -> None:
    first = await client.responses.create(model="m", input=LONG)
    reader.summary = summary
    asks: list[Any] = [
        client.responses.compact(model="m", previous_response_id=first.id),
        client.responses.create(
            model="m", previous_response_id=first.id, input="On.", context_management=MANAGED, stream=True
        ),
    ]
    for ask in asks:
        with pytest.raises(APIStatusError) as failed:
            await ask
        assert (failed.value.status_code, failed.value.code) == (status, code)


async def test_a_turn_that_fails_after_a_compaction_ends_in_failure(client: AsyncOpenAI, reader: Reader) -> None:
    first = await client.responses.create(model="m", input=LONG)
    reader.answers = [error_reply(503, "busy"), error_reply(503, "busy")]
    args: Any = {"model": "m", "previous_response_id": first.id, "input": "On.", "context_management": MANAGED}
    with pytest.raises(InternalServerError):
        await client.responses.create(**args)
    events = [event async for event in await client.responses.create(**args, stream=True)]
    assert events[-1].type == "response.failed"
    assert [event.type for event in events].count("response.output_item.done") == 1


async def refusal(ask: Any) -> tuple[str | None, str | None]:
    with pytest.raises(BadRequestError) as refused:
        await ask
    return refused.value.param, refused.value.code


FOREIGN: Any = {"type": "compaction", "encrypted_content": "gAAAAABo"}


async def test_invalid_compaction_requests_are_refused_by_name(client: AsyncOpenAI) -> None:
    compact = client.responses.compact
    assert await refusal(compact(model="m", input=[{"role": "system", "content": "a"}])) == ("input", "invalid_value")
    assert await refusal(compact(model="m", input="a", extra_body={"stream": True})) == ("stream", "unknown_parameter")
    assert await refusal(compact(model="", input="a")) == ("model", "missing_required_parameter")
    assert await refusal(compact(model="m", previous_response_id="resp_x")) == (
        "previous_response_id",
        "previous_response_not_found",
    )
    assert await refusal(compact(model="m", input=[{"role": "user", "content": "a"}, FOREIGN])) == (
        "input[1].encrypted_content",
        "invalid_value",
    )


async def test_unsupported_context_management_is_refused_by_name(client: AsyncOpenAI) -> None:
    create = client.responses.create
    first = await create(model="m", input="a")
    managed: list[Any] = [{"type": "compaction"}]
    threshold = "context_management[0].compact_threshold"
    zero: list[Any] = [{"type": "compaction", "compact_threshold": 0}]
    assert await refusal(create(model="m", input="a", context_management=managed)) == (
        threshold,
        "unsupported_parameter",
    )
    assert await refusal(create(model="m", input="a", context_management=zero)) == (threshold, "invalid_value")
    assert await refusal(create(model="uncounted", input="a", context_management=MANAGED)) == (
        "context_management",
        "unsupported_parameter",
    )
    input_items: list[Any] = [{"role": "user", "content": "b"}, FOREIGN]
    assert await refusal(create(model="m", previous_response_id=first.id, input=input_items)) == (
        "input[1].encrypted_content",
        "invalid_value",
    )
    trigger: list[Any] = [{"type": "compaction_trigger"}, {"role": "user", "content": "b"}]
    assert await refusal(create(model="m", input=trigger)) == ("input[0]", "invalid_value")


async def test_an_upstream_with_compaction_gets_the_compaction_request(
    client: AsyncOpenAI, upstream: ScriptedUpstream
) -> None:
    upstream.on("/responses", responses_text("ok"))
    ours = dumped((await client.responses.compact(model="m", input="I am Ada.")).output)
    input_items: list[Any] = [*ours, FOREIGN, {"role": "user", "content": "a"}]
    response = await client.responses.create(
        model="openai", input=input_items, context_management=MANAGED, truncation="auto"
    )
    assert response.output_text == "ok"
    sent = upstream.requests[-1].json
    assert (sent["context_management"], sent["truncation"]) == (MANAGED, "auto")
    assert [item["type"] for item in sent["input"]] == ["message", "message", "compaction", "message"]
    assert sent["input"][2] == FOREIGN


async def test_a_responses_upstream_without_compaction_is_managed_by_the_gateway(
    client: AsyncOpenAI, upstream: ScriptedUpstream, reader: Reader
) -> None:
    first = await client.responses.create(model="m", input=LONG)
    second = await client.responses.create(
        model="both", previous_response_id=first.id, input="On.", context_management=MANAGED
    )
    assert [item.type for item in second.output] == ["compaction", "message"]


async def test_a_model_with_responses_only_is_managed_too(client: AsyncOpenAI, upstream: ScriptedUpstream) -> None:
    upstream.on("/responses", responses_text("Ada is 36."))
    input_items: list[Any] = [
        {"role": "user", "content": LONG},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "On."},
    ]
    response = await client.responses.create(model="responses", input=input_items, context_management=MANAGED)
    assert [item.type for item in response.output] == ["message"]  # its usage reports a short input
    lower: list[Any] = [{"type": "compaction", "compact_threshold": 1}]
    second = await client.responses.create(
        model="responses", previous_response_id=response.id, input="On.", context_management=lower
    )
    assert [item.type for item in second.output] == ["compaction", "message"]
    sent = upstream.requests[-1].json
    assert [item["role"] for item in sent["input"]] == ["user", "user"]
    assert "context_management" not in sent


async def test_a_response_in_the_background_is_compacted_like_any_other(client: AsyncOpenAI, reader: Reader) -> None:
    first = await client.responses.create(model="m", input=LONG)
    args: Any = {"model": "m", "previous_response_id": first.id, "input": "On.", "context_management": MANAGED}
    stream = await client.responses.create(**args, background=True, stream=True)
    ended: Any = [event async for event in stream][-1]
    assert (ended.type, [item.type for item in ended.response.output]) == (
        "response.completed",
        ["compaction", "message"],
    )


async def test_compactions_of_other_owners_are_unknown_to_both_endpoints(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    upstream.on("/chat/completions", Reader())
    config = {
        "store": {"url": ready_sqlite(tmp_path / "owners.db")},
        "auth": {"keys": [{"name": name, "key": f"{name}-12345678"} for name in ("ada", "bob")]},
        "providers": {"chat": {"type": "openai_compatible", "base_url": upstream.url}},
        "models": {"*": {"provider": "chat"}},
    }
    with serving(config) as gateway:
        async with (
            AsyncOpenAI(base_url=gateway.v1, api_key="ada-12345678", max_retries=0) as ada,
            AsyncOpenAI(base_url=gateway.v1, api_key="bob-12345678", max_retries=0) as bob,
        ):
            hers = (await ada.responses.create(model="m", input="a")).id
            for ask in (bob.responses.compact, bob.responses.input_tokens.count):
                seen = [
                    await refusal(ask(model="m", previous_response_id=response_id, input="b"))
                    for response_id in (hers, "resp_unknown")
                ]
                assert seen == [("previous_response_id", "previous_response_not_found")] * 2


async def test_usage_includes_compaction_and_answer(client: AsyncOpenAI, reader: Reader) -> None:
    first = await client.responses.create(model="m", input=LONG)
    reader.answers = [chat_text("fine", usage=usage(7, 2))]
    second = await client.responses.create(
        model="m", previous_response_id=first.id, input="On.", context_management=MANAGED
    )
    assert second.usage is not None
    assert (second.usage.input_tokens, second.usage.output_tokens, second.usage.total_tokens) == (57, 7, 64)
