"""gateway/doctor/runner.py: the verdicts for correct and for faulty upstreams."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from gateway.config.settings import Settings, parse_settings
from gateway.doctor.checks.check_list import CHECKS
from gateway.doctor.checks.verdicts import Diagnosis, Finding
from gateway.doctor.runner import diagnose
from gateway.process.local_gateway import serve_locally
from providers.config import ProviderType
from tests.unit.gateway.doctor.doctor_models import WINDOW, answer_to, settings_for, sound
from tests.upstream import (
    Hang,
    ScriptedUpstream,
    chat_calls,
    chat_chunk,
    chat_sse,
    chat_text,
    closed_port,
    error_reply,
    responses_sse,
    responses_text,
    sse_reply,
)
from tests.upstream.anthropic import anthropic_text
from tests.upstream.builders import data_frame, text_events
from tests.upstream.ollama import ollama_text
from tests.upstream.script import Exchange, Script

DEADLINE_S = 60.0
SPOKEN: dict[ProviderType, Script] = {
    "openai": responses_text("po", "ng"),
    "anthropic": anthropic_text("po", "ng"),
    "ollama": ollama_text("po", "ng"),
}


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as running:
        running.script(sound)
        yield running


async def examined(settings: Settings, *only: str, deadline_s: float = DEADLINE_S) -> Diagnosis:
    """Returns the diagnosis of the only model, by these checks or by all."""
    checks = [check for check in CHECKS if check.name in only] or CHECKS
    (diagnosis,) = await asyncio.to_thread(diagnose, settings, (), serve_locally, deadline_s, checks=checks)
    return diagnosis


def finding(diagnosis: Diagnosis, check: str) -> Finding:
    return next(each for each in diagnosis.findings if each.check == check)


def verdicts(diagnosis: Diagnosis) -> Mapping[str, str]:
    return {each.check: each.verdict for each in diagnosis.findings}


def instead(reply: Script, **when: Any) -> Script:
    """Sends this reply to requests whose bodies have such fields (`...`: any value), and correct ones to all others."""

    async def play(exchange: Exchange) -> None:
        body = exchange.request.json
        fits = all(name in body and expected in (body[name], ...) for name, expected in when.items())
        await (reply if fits else answer_to(body))(exchange)

    return play


async def test_a_correct_model_passes_all_applicable_checks(upstream: ScriptedUpstream) -> None:
    diagnosis = await examined(settings_for(upstream))
    # It never thinks, whatever the requested effort, and counts no cached tokens.
    skipped = {"reasoning", "replay", "messages_thinking", "prefix_cache"}
    assert verdicts(diagnosis) == {check.name: "skipped" if check.name in skipped else "pass" for check in CHECKS}
    assert not diagnosis.failed
    assert diagnosis.first_token_s is not None
    assert 0 < diagnosis.first_token_s < DEADLINE_S
    assert "write capabilities: {reasoning: false}" in finding(diagnosis, "reasoning").detail


async def test_undeclared_features_are_refused_by_name(upstream: ScriptedUpstream) -> None:
    none = dict.fromkeys(("tools", "parallel_tools", "streaming", "json_schema", "images", "reasoning"), False)
    diagnosis = await examined(settings_for(upstream, none))
    refused = {name for name, verdict in verdicts(diagnosis).items() if verdict == "refused"}
    tools = {"tools", "tools_parallel", "tools_streamed", "tools_forced", "tools_hosted"}
    chat = {"chat_streaming", "chat_tools", "chat_tools_forced", "chat_json_schema"}
    messages = {"messages_streaming", "messages_tools", "messages_tools_parallel", "messages_thinking"}
    assert refused == tools | chat | messages | {"streaming", "json_schema", "images", "reasoning", "replay", "cancel"}
    assert finding(diagnosis, "images").detail.startswith("400 unsupported_parameter")
    assert finding(diagnosis, "reasoning").detail == "the reply reports a loss: reasoning=dropped"
    assert "reasoning=dropped" in diagnosis.losses
    assert not diagnosis.failed


async def test_a_model_that_answers_text_where_it_must_call_fails_its_tools(upstream: ScriptedUpstream) -> None:
    upstream.script(instead(chat_text("sunny"), tools=...))
    diagnosis = await examined(settings_for(upstream), "tools", "tools_parallel", "tools_streamed", "tools_forced")
    for check in ("tools", "tools_parallel", "tools_streamed"):
        assert finding(diagnosis, check).detail == "it was told to call a tool, but answered with text"
    assert finding(diagnosis, "tools_forced").verdict == "fail"
    assert diagnosis.failed


async def test_a_model_with_gateway_tools_passes_and_missing_behaviour_is_reported(
    upstream: ScriptedUpstream,
) -> None:
    async def reluctant(exchange: Exchange) -> None:
        body = exchange.request.json
        is_free = body.get("tools") and body.get("tool_choice", "auto") == "auto"
        await (chat_text("No.") if is_free and body["messages"][-1]["role"] == "user" else answer_to(body))(exchange)

    async def careless(exchange: Exchange) -> None:
        body = exchange.request.json
        has_result = body["messages"][-1]["role"] == "tool"
        await (chat_text("I do not know.") if has_result else answer_to(body))(exchange)

    wrong = chat_calls(("get_weather", '{"town": "Paris"}'))
    for script, verdict, detail in (
        (sound, "pass", "it called, and used the result"),
        (reluctant, "pass", "it called, and used the result, but called only with tool_choice: required"),
        (careless, "skipped", "is not in its answer 'I do not know.'; if it cannot use tools, write capabilities"),
        (instead(chat_text("sunny"), tools=...), "fail", "it was told to call a tool, but answered with text"),
        (instead(wrong, tools=...), "fail", "no call succeeded: The call was not run: arguments"),
    ):
        upstream.script(script)
        found = finding(await examined(settings_for(upstream), "tools_hosted"), "tools_hosted")
        assert (found.verdict, detail in found.detail) == (verdict, True), found.detail
        assert ("write capabilities: {tools: false}" in found.advice) == (verdict == "fail")


async def test_a_model_without_tools_is_not_advised_to_disable_streams(upstream: ScriptedUpstream) -> None:
    upstream.script(instead(error_reply(400, "no tools here"), tools=...))
    diagnosis = await examined(settings_for(upstream), "text", "tools", "tools_parallel", "tools_streamed")
    for check in ("tools", "tools_parallel", "tools_streamed"):
        assert "write capabilities: {tools: false}" in finding(diagnosis, check).advice


async def test_a_model_that_calls_only_when_forced_passes(upstream: ScriptedUpstream) -> None:
    async def reluctant(exchange: Exchange) -> None:
        body = exchange.request.json
        is_free = body.get("tools") and body.get("tool_choice", "auto") == "auto"
        await (chat_text("I would rather not") if is_free else answer_to(body))(exchange)

    upstream.script(reluctant)
    found = finding(await examined(settings_for(upstream), "tools"), "tools")
    assert (found.verdict, found.detail) == ("pass", "only with tool_choice: required")


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        (chat_calls(("search", "{}")), "it calls search, which is not a tool of the request"),
        (chat_calls(("get_weather", "[1]")), "the arguments of get_weather are not an object"),
    ],
)
async def test_calls_that_are_malformed_fail(reply: Script, complaint: str, upstream: ScriptedUpstream) -> None:
    upstream.script(instead(reply, tools=...))
    found = finding(await examined(settings_for(upstream), "tools"), "tools")
    assert found.verdict == "fail"
    assert complaint in found.detail


async def test_calls_left_in_the_text_fail_with_the_setting_to_write(upstream: ScriptedUpstream) -> None:
    upstream.script(instead(chat_text('<tool_call>{"name": "get_weather"}</tool_call>'), tools=...))
    found = finding(await examined(settings_for(upstream), "tools"), "tools")
    assert found.detail == "its calls are in its text: write tool_parser: hermes to parse them"


async def test_thinking_left_in_the_text_fails_with_the_setting_to_write(upstream: ScriptedUpstream) -> None:
    upstream.script(chat_text("<think>Pong.</think>", "pong"))
    found = finding(await examined(settings_for(upstream), "text"), "text")
    assert (found.verdict, "parsing_format: think_tags" in found.detail) == ("fail", True)


async def test_usage_that_is_missing_or_does_not_add_up_fails(upstream: ScriptedUpstream) -> None:
    upstream.script(chat_text("pong", usage={"prompt_tokens": 0, "completion_tokens": 3, "total_tokens": 3}))
    assert finding(await examined(settings_for(upstream), "usage"), "usage").detail == "usage.input_tokens is 0"


async def test_a_silent_stream_fails_with_a_timeout(upstream: ScriptedUpstream) -> None:
    upstream.script(instead(sse_reply(data_frame(chat_chunk({"content": "po"})), Hang()), stream=True))
    diagnosis = await examined(settings_for(upstream, silence_s=2), "text", "streaming")
    found = finding(diagnosis, "streaming")
    assert (found.verdict, found.detail) == ("fail", "server_error: the upstream sent no data in time")
    assert finding(diagnosis, "text").verdict == "pass"


async def test_an_endless_stream_is_abandoned(upstream: ScriptedUpstream) -> None:
    async def endless(exchange: Exchange) -> None:
        if not exchange.request.streams:
            await answer_to(exchange.request.json)(exchange)
            return
        frame = data_frame(chat_chunk({"content": "tick "}))
        await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        while not exchange.request.closed.done():
            await exchange.send(b"%x\r\n%b\r\n" % (len(frame), frame))
            await asyncio.sleep(0.005)  # a model's pace: at full speed it would keep the doctor from its clock

    upstream.script(endless)
    found = finding(await examined(settings_for(upstream), "streaming", deadline_s=1), "streaming")
    assert (found.verdict, found.detail) == ("fail", "the reply did not end within 1 s")
    assert found.seconds < 5


async def test_a_stream_that_breaks_off_fails(upstream: ScriptedUpstream) -> None:
    upstream.script(instead(chat_sse([chat_chunk({"content": "po"})], done=False), stream=True))
    found = finding(await examined(settings_for(upstream), "streaming"), "streaming")
    assert found.verdict == "fail"


async def test_an_ignored_limit_fails(upstream: ScriptedUpstream) -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 60, "total_tokens": 69}
    upstream.script(instead(chat_text("1, 2, 3", usage=usage), max_tokens=16))
    assert finding(await examined(settings_for(upstream), "length"), "length").detail == (
        "it wrote 60 tokens, but the limit was 16"
    )


async def test_an_ignored_stop_sequence_fails(upstream: ScriptedUpstream) -> None:
    upstream.script(instead(chat_text("11, 12, 13"), stop=...))
    assert (
        finding(await examined(settings_for(upstream), "stop"), "stop").detail == "the stop sequence is in the answer"
    )


async def test_an_answer_without_the_stop_sequence_proves_nothing(upstream: ScriptedUpstream) -> None:
    upstream.script(chat_text("I would rather not count."))
    diagnosis = await examined(settings_for(upstream), "stop", "chat_stop")
    for check in ("stop", "chat_stop"):
        found = finding(diagnosis, check)
        assert (found.verdict, "does not contain 12 without a stop" in found.detail) == ("skipped", True)


@pytest.mark.parametrize(
    ("text", "complaint"), [("seven", "the answer is not JSON"), ('{"a": 3}', "the answer does not fit its schema")]
)
async def test_an_answer_that_violates_its_schema_fails(text: str, complaint: str, upstream: ScriptedUpstream) -> None:
    upstream.script(instead(chat_text(text), response_format=...))
    assert finding(await examined(settings_for(upstream), "json_schema"), "json_schema").detail.startswith(complaint)


async def test_a_context_that_holds_more_than_declared_fails(upstream: ScriptedUpstream) -> None:
    upstream.script(chat_text("pong"))
    found = finding(await examined(settings_for(upstream), "overflow"), "overflow")
    assert (found.verdict, str(WINDOW) in found.detail) == ("fail", True)


async def test_an_overflow_with_another_code_fails(upstream: ScriptedUpstream) -> None:
    upstream.script(instead(error_reply(400, "bad"), max_tokens=16))
    found = finding(await examined(settings_for(upstream), "overflow"), "overflow")
    assert (found.verdict, "upstream_rejected" in found.detail) == ("fail", True)


async def test_an_image_that_is_accepted_and_not_seen_is_no_pass(upstream: ScriptedUpstream) -> None:
    upstream.script(chat_text("I am a text model,\nso I cannot see images. " * 5))
    found = finding(await examined(settings_for(upstream), "images"), "images")
    assert found.verdict == "skipped"
    assert "the image was accepted, but it is orange and the answer is 'I am a text model, so" in found.detail
    assert len(found.detail) < 250


async def test_missing_tool_flags_of_vllm_are_advised_before_anything_else(upstream: ScriptedUpstream) -> None:
    words = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    upstream.script(instead(error_reply(400, words), tools=...))
    diagnosis = await examined(
        settings_for(upstream), "text", "tools", "tools_parallel", "tools_streamed", "chat_tools"
    )
    failing = [each for each in diagnosis.findings if each.verdict == "fail"]
    assert len(failing) == 4
    assert len({each.advice for each in failing}) == 1
    assert failing[0].advice.startswith("Start vLLM with --enable-auto-tool-choice and --tool-call-parser")


async def test_a_failing_upstream_is_reported_with_its_error(upstream: ScriptedUpstream) -> None:
    upstream.script(instead(error_reply(500, "boom"), model="doctor-no-such-model"))
    found = finding(await examined(settings_for(upstream), "errors"), "errors")
    assert (found.verdict, "502" in found.detail) == ("fail", True)


async def test_a_busy_upstream_decides_nothing(upstream: ScriptedUpstream) -> None:
    upstream.script(instead(error_reply(429, "slow down", code="rate_limit_exceeded"), stop=...))
    diagnosis = await examined(settings_for(upstream), "text", "stop")
    assert finding(diagnosis, "stop").verdict == "skipped"
    assert not diagnosis.failed


async def test_a_failure_has_its_request_reply_and_advice(upstream: ScriptedUpstream) -> None:
    upstream.script(instead(chat_text("seven"), response_format=...))
    diagnosis = await examined(settings_for(upstream), "text", "json_schema", "chat_json_schema", "chat_streaming")
    assert {
        each.request_text + each.reply_text + each.advice for each in diagnosis.findings if each.verdict == "pass"
    } == {""}
    found = finding(diagnosis, "json_schema")
    assert found.request_text.startswith('POST /v1/responses\n{"model":"sound",')
    assert found.reply_text.startswith("200\n")
    assert "seven" in found.reply_text
    assert "capabilities: {json_schema: false} at models.sound" in found.advice
    assert finding(diagnosis, "chat_json_schema").request_text.startswith("POST /v1/chat/completions\n")


async def test_a_failing_stream_is_reported_with_its_last_frames(upstream: ScriptedUpstream) -> None:
    pieces = [f"piece {number}" for number in range(9)]
    upstream.script(instead(chat_sse([chat_chunk({"content": each}) for each in pieces], done=False), stream=True))
    found = finding(await examined(settings_for(upstream), "chat_streaming"), "chat_streaming")
    told, left_out, *frames = found.reply_text.splitlines()
    assert (told.startswith("200, and "), left_out) == (True, "...")
    assert "piece 8" in "".join(frames)
    assert "piece 0" not in found.reply_text
    assert '"error"' in found.reply_text


async def test_long_texts_of_a_request_are_cut(upstream: ScriptedUpstream) -> None:
    upstream.script(chat_text("pong"))
    found = finding(await examined(settings_for(upstream), "overflow"), "overflow")
    assert (found.verdict, len(found.request_text) < 600) == ("fail", True)
    assert "characters)" in found.request_text


async def test_an_unknown_upstream_model_is_reported_with_the_configuration_key(upstream: ScriptedUpstream) -> None:
    found = finding(await examined(settings_for(upstream, model="unknown"), "text"), "text")
    assert found.advice.startswith("Correct model at models.sound: the upstream has no model unknown.")


async def test_a_model_without_thinking_is_not_blamed_for_missing_thoughts(upstream: ScriptedUpstream) -> None:
    upstream.script(anthropic_text("pong"))
    provider = {"type": "anthropic", "base_url": upstream.url, "api_key": "k", "retries": 0}
    model = {"provider": "p", "model": "claude-sonnet-4-5", "capabilities": {"max_context_window": WINDOW}}
    settings = parse_settings({"providers": {"p": provider}, "models": {"m": model}}, environ={})
    found = finding(await examined(settings, "reasoning"), "reasoning")
    assert (found.verdict, "reasoning=no room for it" in found.detail) == ("skipped", True)


async def test_a_failure_inside_a_chat_stream_is_reported_with_its_error(upstream: ScriptedUpstream) -> None:
    upstream.script(instead(sse_reply(data_frame(chat_chunk({"content": "po"})), Hang()), stream=True))
    found = finding(await examined(settings_for(upstream, silence_s=2), "chat_streaming"), "chat_streaming")
    assert (found.verdict, "sent no data in time" in found.detail) == ("fail", True)


async def test_without_any_reply_only_the_first_check_runs(upstream: ScriptedUpstream) -> None:
    settings = settings_for(upstream)
    away = settings.providers["upstream"].model_copy(update={"base_url": f"http://127.0.0.1:{closed_port()}/v1"})
    diagnosis = await examined(settings.model_copy(update={"providers": {"upstream": away}}))
    first, *others = diagnosis.findings
    assert (first.verdict, "upstream_unreachable" in first.detail) == ("fail", True)
    assert {each.verdict for each in others} == {"skipped"}
    assert upstream.requests == []


async def test_a_strict_model_refuses_what_would_be_lost(upstream: ScriptedUpstream) -> None:
    diagnosis = await examined(settings_for(upstream, {"parallel_tools": False, "reasoning": False}, strict=True))
    assert finding(diagnosis, "tools_parallel").verdict == "refused"
    assert "strict mode" in finding(diagnosis, "reasoning").detail
    assert not diagnosis.failed


async def test_a_name_that_a_pattern_matches_is_examined_under_that_name(upstream: ScriptedUpstream) -> None:
    upstream.script(chat_text("pong"))
    (diagnosis,) = await asyncio.to_thread(diagnose, settings_for(upstream), ["other-7"], serve_locally, DEADLINE_S)
    assert (diagnosis.model, diagnosis.upstream_model) == ("other-7", "other-7")
    assert upstream.requests[0].json["model"] == "other-7"


async def test_the_keys_of_the_configuration_are_not_the_doctors(upstream: ScriptedUpstream) -> None:
    settings = settings_for(upstream)
    locked = settings.model_validate({**settings.model_dump(), "auth": {"keys": [{"name": "a", "key": "k"}]}})
    assert finding(await examined(locked, "text"), "text").verdict == "pass"


@pytest.mark.parametrize(("kind", "replies"), SPOKEN.items(), ids=SPOKEN)
async def test_every_dialect_has_the_same_checks(
    kind: ProviderType, replies: Script, upstream: ScriptedUpstream
) -> None:
    upstream.script(replies)
    provider = {"type": kind, "base_url": upstream.url, "api_key": "k", "retries": 0}
    settings = parse_settings({"providers": {"p": provider}, "models": {"m": {"provider": "p"}}}, environ={})
    found = verdicts(await examined(settings))
    assert {check: found[check] for check in ("text", "streaming", "usage", "cancel")} == dict.fromkeys(
        ("text", "streaming", "usage", "cancel"), "pass"
    )
    assert found["tools_forced"] == ("refused" if kind == "ollama" else "fail")
    assert found["tools"] == ("skipped" if kind == "ollama" else "fail")


async def test_a_relayed_stream_is_checked_for_the_same_order(upstream: ScriptedUpstream) -> None:
    events = text_events("po", "ng")
    events[4] = {**events[4], "item_id": "msg_of_another"}
    upstream.script(responses_sse(events))
    provider = {"type": "openai", "base_url": upstream.url, "api_key": "k"}
    settings = parse_settings({"providers": {"p": provider}, "models": {"m": {"provider": "p"}}}, environ={})
    found = finding(await examined(settings, "streaming"), "streaming")
    assert (found.verdict, found.detail) == ("fail", "an item's id changed")


def test_models_are_examined_beside_a_model_of_embeddings_of_another_provider() -> None:
    settings = parse_settings(
        {
            "providers": {"demo": {"type": "scripted"}, "vectors": {"type": "ollama"}},
            "models": {"m": {"provider": "demo"}},
            "tools": {"file_search": {"embeddings": {"provider": "vectors", "model": "x"}}},
        },
        environ={},
    )
    checks = [check for check in CHECKS if check.name == "streaming"]
    (diagnosis,) = diagnose(settings, (), serve_locally, DEADLINE_S, checks=checks)
    assert verdicts(diagnosis) == {"streaming": "pass"}
