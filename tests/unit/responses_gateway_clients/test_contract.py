"""The two APIs of the gateway's own clients give equal replies to equal requests."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from responses_gateway_clients.contract import Api, GatewayRequest
from responses_gateway_clients.generate_api import GenerateApi
from responses_gateway_clients.http import GatewayClient, GatewayError, JsonFrame
from responses_gateway_clients.responses_api import ResponsesApi
from tests.serving import serving

Json = dict[str, Any]

HELLO: Json = {"role": "user", "content": "Say hello."}
ADD: Json = {
    "name": "add",
    "description": "adds",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
}
APIS: list[Api] = [GenerateApi(), ResponsesApi()]

each_api = pytest.mark.parametrize("api", APIS, ids=["generate", "responses"])


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayClient]:
    with serving({"providers": {"demo": {"type": "scripted"}}, "models": {"demo": {"provider": "demo"}}}) as running:
        yield GatewayClient(base_url=running.url, api_key=None, timeout_s=20, max_retries=0, headers={})


def ask(*messages: Json, **more: Any) -> GatewayRequest:
    return GatewayRequest(messages=messages or [HELLO], model="demo", **more)


def whole(gateway: GatewayClient, api: Api, asked: GatewayRequest) -> Json:
    return _named(api.parse_reply(gateway.post(api.path, api.build_body(asked, stream=False))))


def streamed(gateway: GatewayClient, api: Api, asked: GatewayRequest) -> tuple[list[Json], Json]:
    """The pieces, and the reply at the end."""
    reader = api.create_reader()
    frames = gateway.stream(api.path, api.build_body(asked, stream=True))
    pieces = [piece for frame in frames for piece in reader.feed(frame)]
    assert reader.reply is not None
    return pieces, _named(reader.reply)


def _named(reply: Json) -> Json:
    """Returns the reply with comparable call ids."""
    calls = [{**call, "id": f"call {number}"} for number, call in enumerate(reply["tool_calls"])]
    return {**reply, "tool_calls": calls}


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
CALLED = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
SCHEMA = {"name": "n", "schema": {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}}

ASKED = {
    "text": ask(),
    "thinking": ask(max_thinking_tokens=4, temperature=0.5),
    "no thinking": ask(max_thinking_tokens=0),
    "a limit": ask({"role": "user", "content": "long " * 30}, max_response_tokens=16),
    "a stop": ask(stop=["hello"]),
    "a system message and a name": ask({"role": "system", "content": "Be brief."}, HELLO),
    "a call": ask(tools=[ADD]),
    "a call after thinking": ask(tools=[ADD], tool_choice={"name": "add"}, max_thinking_tokens=4),
    "some call": ask(tools=[ADD], tool_choice="required"),
    "no call": ask(tools=[ADD], tool_choice="none"),
    "a result": ask(
        HELLO,
        {"role": "assistant", "content": "", "reasoning_content": "Hm.", "tool_calls": [CALLED]},
        {"role": "tool", "tool_call_id": "call_1", "content": "3"},
        tools=[ADD],
    ),
    "a result in parts": ask(
        HELLO,
        {"role": "assistant", "content": "I add.", "tool_calls": [CALLED]},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "3"}]},
    ),
    "an empty answer before": ask(HELLO, {"role": "assistant", "content": ""}, HELLO),
    "a picture": ask({"role": "user", "content": [{"type": "text", "text": "What is it?"}, PICTURE]}),
    "a file": ask(
        {
            "role": "user",
            "content": [
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="}}
            ],
        }
    ),
    "a schema": ask(response_format={"type": "json_schema", "json_schema": SCHEMA}),
    "an object": ask(response_format={"type": "json_object"}),
}


@pytest.mark.parametrize("params", ASKED.values(), ids=ASKED)
def test_both_apis_give_the_same_reply_whole_or_streamed(gateway: GatewayClient, params: GatewayRequest) -> None:
    expected = whole(gateway, APIS[0], params)
    assert whole(gateway, APIS[1], params) == expected
    for api in APIS:
        pieces, reply = streamed(gateway, api, params)
        assert reply == expected
        for key in ("thinking", "response"):
            assert "".join(piece.get(key, "") for piece in pieces) == reply[key]
        calls = [piece["tool_call"] for piece in pieces if "tool_call" in piece]
        assert [call["name"] for call in calls if "name" in call] == [call["name"] for call in reply["tool_calls"]]
        assert json.loads("".join(call["arguments"] for call in calls) or "{}") == (
            reply["tool_calls"][0]["arguments"] if reply["tool_calls"] else {}
        )


def test_the_example_requests_have_the_expected_replies(gateway: GatewayClient) -> None:
    replies = {name: whole(gateway, APIS[0], asked) for name, asked in ASKED.items()}
    assert replies["thinking"]["thinking"] == "The user wrote 2"
    assert replies["no thinking"]["thinking"] == ""
    assert replies["a limit"]["response"] == "You said:" + " long" * 14
    assert replies["a limit"]["finish_reason"] == "length"
    assert replies["a stop"]["response"] == "You said: Say "
    assert replies["some call"]["tool_calls"][0]["arguments"] == {"a": 0}
    assert replies["some call"]["finish_reason"] == "tool_calls"
    assert replies["no call"]["tool_calls"] == []
    assert replies["a result"]["response"] == "add returned: 3"
    assert replies["a schema"]["response"] == '{"a":1}'
    assert replies["a picture"]["response"] == "You said: What is it? [image]"
    assert replies["a file"]["response"] == "You said: [file]"


@each_api
def test_parameters_beside_the_contract_are_sent(gateway: GatewayClient, api: Api) -> None:
    assert (
        api.build_body(ask(extra_fields={"seed": 3, "top_p": 0.5}), stream=True).items()
        >= {
            "seed": 3,
            "top_p": 0.5,
            "stream": True,
            "model": "demo",
        }.items()
    )


@each_api
def test_a_refusal_is_raised(gateway: GatewayClient, api: Api) -> None:
    with pytest.raises(GatewayError, match="does not exist"):
        gateway.post(api.path, api.build_body(GatewayRequest(messages=[HELLO], model="unheard-of"), stream=False))


def test_generate_has_parameters_of_its_own() -> None:
    asked = ask(two_pass=True, think_tag="thinking", tool_parser="hermes")
    body = APIS[0].build_body(asked, stream=False)
    assert (body["two_pass"], body["think_tag"], body["tool_parser"]) == (True, "thinking", "hermes")
    assert not APIS[1].build_body(asked, stream=False).keys() & {"two_pass", "think_tag", "tool_parser"}


def test_over_responses_one_limit_is_for_thinking_and_answer() -> None:
    body = APIS[1].build_body(ask(max_thinking_tokens=10, max_response_tokens=5), stream=False)
    assert (body["max_output_tokens"], body["reasoning"]) == (15, {"max_tokens": 10})
    assert body["store"] is False


def test_a_failure_in_a_stream_is_raised() -> None:
    error = {"message": "it broke off", "code": "upstream_disconnected", "param": None}
    said: list[tuple[Api, JsonFrame]] = [
        (APIS[0], JsonFrame("error", {"error": error})),
        (APIS[1], JsonFrame("response.failed", {"type": "response.failed", "response": {"error": error}})),
        (APIS[1], JsonFrame("error", {"type": "error", **error})),
    ]
    for api, frame in said:
        with pytest.raises(GatewayError, match="it broke off") as failed:
            api.create_reader().feed(frame)
        assert failed.value.code == "upstream_disconnected"
    with pytest.raises(GatewayError, match="it broke off"):
        APIS[1].parse_reply({"status": "failed", "error": error, "output": []})


def _response(arguments: str, **more: Any) -> Json:
    call = {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": arguments}
    return {"status": "completed", "model": "demo", "output": [call], "usage": None, **more}


def test_a_call_that_was_cut_off_is_none_and_one_that_cannot_be_read_is_a_failure() -> None:
    cut = APIS[1].parse_reply(_response('{"a', incomplete_details={"reason": "max_output_tokens"}))
    assert (cut["tool_calls"], cut["pre_tool_text"], cut["finish_reason"], cut["usage"]) == ([], "", "length", None)
    with pytest.raises(GatewayError, match="'add'") as failed:
        APIS[1].parse_reply(_response('{"a'))
    assert failed.value.code == "tool_call_parse_error"
    assert APIS[1].parse_reply(_response("", incomplete_details={"reason": "max_output_tokens"}))["tool_calls"] == []
    unfinished = _response('{"a')
    unfinished["output"][0]["status"] = "incomplete"
    assert APIS[1].parse_reply(unfinished)["tool_calls"] == []
    filtered = APIS[1].parse_reply(_response("", incomplete_details={"reason": "content_filter"}))
    assert filtered["finish_reason"] == "content_filter"


def test_a_reply_with_calls_has_the_text_around_them() -> None:
    def message(text: str) -> Json:
        return {"type": "message", "content": [{"type": "output_text", "text": text}]}

    reply = _response('{"a": 1}')
    reply["output"] = [message("I look.\n"), *reply["output"], message(" And again. ")]
    parsed = APIS[1].parse_reply(reply)
    assert parsed["pre_tool_text"] == parsed["response"] == "I look.\n And again."
