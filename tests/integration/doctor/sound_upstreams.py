"""The model without faults behind each upstream API, over real sockets."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gateway.doctor.checks.expectations import SAMPLE_IMAGE_URL
from gateway.doctor.checks.hosted_probes import WEATHERS
from tests.integration.doctor.sound_models import (
    MODELS,
    SIGNATURE,
    WINDOW,
    Json,
    ModelReply,
    ModelRequest,
    Refused,
    answer_question,
)
from tests.integration.doctor.sound_responses import read_responses, write_responses
from tests.unit.support.harmony import marked, real
from tests.upstream import Reply, Script, anthropic, chat_sse, error_reply, gemini, harmony, ollama
from tests.upstream.builders import SSE, chat_chunk, data_frame, json_reply, sse_reply, whole_chat
from tests.upstream.request import Request
from tests.upstream.script import Exchange

LONG = f"the prompt is too long: it exceeds the context length of {WINDOW} tokens"
UNKNOWN = "there is no such model"
IMAGE = SAMPLE_IMAGE_URL.partition(",")[2]
UNSIGNED = "a thought is missing that was signed"


def text_in(content: Any) -> str:
    """The text of a message, however it is written."""
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text", "")) for part in content or ())


def weather_in(body: str) -> str:
    """The result of the doctor's tool in a request; empty without one."""
    return next((weather for weather in WEATHERS if weather in body), "")


def read_chat(request: Request) -> ModelRequest:
    body = request.json
    choice, last = body.get("tool_choice"), body["messages"][-1]
    template = body.get("chat_template_kwargs") or {}
    return ModelRequest(
        model=body["model"],
        question=text_in(last["content"]),
        tools=tuple(tool["function"]["name"] for tool in body.get("tools") or ()),
        forced=choice["function"]["name"] if isinstance(choice, dict) else None,
        has_result=last["role"] == "tool",
        has_schema="response_format" in body,
        limit=body.get("max_tokens") or body.get("max_completion_tokens"),
        stop=bool(body.get("stop")),
        thinks=bool(body.get("reasoning_effort") or body.get("reasoning") or template.get("enable_thinking")),
    )


def write_chat(answer: ModelReply | Refused, *, stream: bool) -> Script:
    if isinstance(answer, Refused):
        told = {"unknown": (404, UNKNOWN, "model_not_found"), "long": (400, LONG, "context_length_exceeded")}
        status, words, code = told[answer.why]
        return error_reply(status, words, code=code)
    usage = {"prompt_tokens": 9, "completion_tokens": answer.tokens, "total_tokens": 9 + answer.tokens}
    calls = [
        {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for number, (name, arguments) in enumerate(answer.calls)
    ]
    reason = "length" if answer.cut else "tool_calls" if calls else "stop"
    thought = {"reasoning_content": answer.thought} if answer.thought else {}
    if not stream:
        more = {**thought, **({"tool_calls": calls} if calls else {})}
        return json_reply(whole_chat("".join(answer.text) or None, finish_reason=reason, usage=usage, **more))
    chunks = [chat_chunk({"role": "assistant", "content": ""})]
    chunks += [chat_chunk(thought)] if thought else []
    chunks += [chat_chunk({"content": piece}) for piece in answer.text]
    chunks += [chat_chunk({"tool_calls": [{"index": index, **call}]}) for index, call in enumerate(calls)]
    return chat_sse([*chunks, chat_chunk({}, reason), chat_chunk(usage=usage)])


def read_anthropic(request: Request) -> ModelRequest:
    body = request.json
    last, choice = body["messages"][-1]["content"], body.get("tool_choice") or {}
    blocks = last if isinstance(last, list) else [{"type": "text", "text": last}]
    has_result = any(block["type"] == "tool_result" for block in blocks)
    thinks = (body.get("thinking") or {}).get("type") in ("adaptive", "enabled")
    before = body["messages"][-2]["content"] if has_result else []
    return ModelRequest(
        model=body["model"],
        question=text_in([block for block in blocks if block["type"] == "text"]),
        tools=tuple(tool["name"] for tool in body.get("tools") or ()),
        forced=choice.get("name"),
        has_result=has_result,
        has_schema="format" in (body.get("output_config") or {}),
        limit=body["max_tokens"],
        stop=bool(body.get("stop_sequences")),
        thinks=thinks,
        forgotten=has_result and thinks and not any(block.get("signature") == SIGNATURE for block in before),
    )


def write_anthropic(answer: ModelReply | Refused, *, stream: bool) -> Script:
    if isinstance(answer, Refused):
        told = {"unknown": (404, "not_found_error", UNKNOWN)}
        words = LONG if answer.why == "long" else UNSIGNED
        return anthropic.anthropic_error(*told.get(answer.why, (400, "invalid_request_error", words)))
    reason = "max_tokens" if answer.cut else "tool_use" if answer.calls else "end_turn"
    content, events = [], [anthropic.opening()]
    if answer.thought:
        content.append(anthropic.thinking_block(answer.thought, SIGNATURE))
        deltas = anthropic.thought(answer.thought, signature=SIGNATURE)
        events += anthropic.block(0, anthropic.thinking_block(), *deltas)
    if answer.text:
        events += anthropic.block(len(content), anthropic.text_block(), *anthropic.text_deltas(*answer.text))
        content.append(anthropic.text_block("".join(answer.text)))
    for number, (name, arguments) in enumerate(answer.calls):
        begun = anthropic.call_block(name, f"toolu_{number}")
        events += anthropic.block(len(content), begun, *anthropic.given("", json.dumps(arguments)))
        content.append(anthropic.call_block(name, f"toolu_{number}", **arguments))
    if stream:
        return anthropic.anthropic_sse([*events, *anthropic.closing(reason, output_tokens=answer.tokens)])
    usage = anthropic.USAGE | {"output_tokens": answer.tokens}
    return json_reply(anthropic.message(*content, stop_reason=reason, usage=usage))


def read_gemini(request: Request) -> ModelRequest:
    body = request.json
    parts, config = body["contents"][-1]["parts"], body.get("generationConfig") or {}
    calling = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    has_result = any("functionResponse" in part for part in parts)
    before = body["contents"][-2]["parts"] if has_result else []
    return ModelRequest(
        model=request.model,
        question=text_in(parts),
        tools=tuple(each["name"] for tool in body.get("tools") or () for each in tool["functionDeclarations"]),
        forced=next(iter(calling.get("allowedFunctionNames") or ()), None),
        has_result=has_result,
        has_schema="responseJsonSchema" in config,
        limit=config.get("maxOutputTokens"),
        stop=bool(config.get("stopSequences")),
        thinks=bool((config.get("thinkingConfig") or {}).keys() & {"thinkingLevel", "thinkingBudget"}),
        forgotten="gemini-3" in request.model and has_result and not any("thoughtSignature" in part for part in before),
    )


def write_gemini(answer: ModelReply | Refused, *, stream: bool) -> Script:
    if isinstance(answer, Refused):
        status, kind = (404, "NOT_FOUND") if answer.why == "unknown" else (400, "INVALID_ARGUMENT")
        words = {"unknown": UNKNOWN, "long": LONG}.get(answer.why, UNSIGNED)
        return json_reply(gemini.error(status, kind, words), status)
    usage = {"promptTokenCount": 9, "candidatesTokenCount": answer.tokens, "totalTokenCount": 9 + answer.tokens}
    parts = [gemini.thought(answer.thought)] if answer.thought else []
    parts += [gemini.text(piece) for piece in answer.text]
    signatures = [SIGNATURE, *[None] * len(answer.calls)]
    parts += [gemini.call(name, given, sign) for (name, given), sign in zip(answer.calls, signatures, strict=False)]
    reason = "MAX_TOKENS" if answer.cut else "STOP"
    if not stream:
        return json_reply(gemini.chunk(*parts, reason=reason, usage=usage))
    ending = gemini.chunk(gemini.text(""), reason=reason, usage=usage)
    return sse_reply(*map(data_frame, [*(gemini.chunk(part) for part in parts), ending]))


def read_ollama(request: Request) -> ModelRequest:
    body = request.json
    last, options = body["messages"][-1], body.get("options") or {}
    return ModelRequest(
        model=body["model"],
        question=last["content"],
        tools=tuple(tool["function"]["name"] for tool in body.get("tools") or ()),
        has_result=last["role"] == "tool",
        has_schema="format" in body,
        limit=options.get("num_predict"),
        stop=bool(options.get("stop")),
        thinks=bool(body.get("think")),
    )


def write_ollama(answer: ModelReply | Refused, *, stream: bool) -> Script:
    if isinstance(answer, Refused):
        return ollama.ollama_error(*((404, UNKNOWN) if answer.why == "unknown" else (400, LONG)))
    counts = {**ollama.COUNTS, "eval_count": answer.tokens}
    reason = "length" if answer.cut else "stop"
    calls = [ollama.call(name, **arguments) for name, arguments in answer.calls]
    thought: Json = {"thinking": answer.thought} if answer.thought else {}
    if not stream:
        called: Json = {"tool_calls": calls} if calls else {}
        return json_reply(ollama.last(reason, "".join(answer.text), counts, **thought, **called))
    chunks = [ollama.chunk(**thought)] if thought else []
    chunks += [ollama.chunk(piece) for piece in answer.text]
    chunks += [ollama.chunk(tool_calls=[call]) for call in calls]
    return ollama.ollama_lines([*chunks, ollama.last(reason, counts=counts)])


def read_harmony(request: Request) -> ModelRequest:
    body = request.json
    prompt = real().decode(body["prompt"])
    users = re.findall(r"<\|start\|>user<\|message\|>(.*?)<\|end\|>", prompt, re.S)
    return ModelRequest(
        model=body["model"],
        question=users[-1],
        tools=tuple(re.findall(r"^type (\w+) = ", prompt, re.M)),
        has_result="to=assistant<|channel|>" in prompt,
        result=weather_in(prompt),
        has_schema="# Response Formats" in prompt,
        limit=body.get("n_predict"),
        thinks=True,
    )


def write_harmony(answer: ModelReply | Refused, *, stream: bool) -> Script:
    if isinstance(answer, Refused):
        return json_reply(harmony.error(404 if answer.why == "unknown" else 400, LONG), 400)
    if answer.cut:
        return token_by_token("<|channel|>final<|message|>1, 2, 3, 4, 5, 6, 7", stream=stream, most=answer.tokens)
    text = f"<|channel|>analysis<|message|>{answer.thought}<|end|><|start|>assistant"
    for name, arguments in answer.calls[:1]:
        text += f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{json.dumps(arguments)}<|call|>"
    if answer.text:
        text += f"<|channel|>final<|message|>{''.join(answer.text)}<|return|>"
    return token_by_token(text, stream=stream)


def token_by_token(text: str, *, stream: bool, most: int | None = None) -> Script:
    tokens = marked(text)[:most]
    ending = "eos" if most is None else "limit"
    told = [harmony.chunk("" if real().is_special(each) else real().decode([each]), each) for each in tokens]
    timings = {"timings": {"cache_n": 8, "prompt_n": 1, "predicted_n": len(tokens)}}
    if stream:
        frames = [{**chunk, "tokens_predicted": made} for made, chunk in enumerate(told, 1)]
        end = harmony.last(len(tokens), ending) | timings
        return Reply(headers=SSE, body=b"".join(map(data_frame, [*frames, end])))
    whole = harmony.last(len(tokens), ending, "".join(chunk["content"] for chunk in told), tokens)
    return json_reply(whole | timings)


DIALECTS: Mapping[str, tuple[Callable[[Request], ModelRequest], Callable[..., Script]]] = {
    "/chat/completions": (read_chat, write_chat),
    "/responses": (read_responses, write_responses),
    "/messages": (read_anthropic, write_anthropic),
    "/api/chat": (read_ollama, write_ollama),
    "/completion": (read_harmony, write_harmony),
}


COUNTS: Mapping[str, Json] = {
    "/responses/input_tokens": {"input_tokens": 9},
    "/chat/completions/input_tokens": {"input_tokens": 9},
    "/messages/count_tokens": {"input_tokens": 9},
    "/tokenize": {"count": 9},
    "countTokens": {"totalTokens": 9},
}
"""Path, or its last part, of an endpoint that counts tokens -> its reply."""


async def answer(exchange: Exchange) -> None:
    """Returns the model's reply, in the dialect of the path."""
    request = exchange.request
    path = request.path.partition("?")[0].removeprefix("/v1")
    if path == "/api/show":
        await ollama.ollama_shown("completion", "tools", "thinking", "vision", window=WINDOW)(exchange)
        return
    if path == "/models":
        listed = [{"id": name, "max_model_len": WINDOW} for name in sorted(MODELS)]
        await json_reply({"object": "list", "data": listed})(exchange)
        return
    if (count := COUNTS.get(path) or COUNTS.get(path.rpartition(":")[2])) is not None:
        await json_reply(count)(exchange)
        return
    read, write = (read_gemini, write_gemini) if "/models/" in path else DIALECTS[path]
    stream = request.streams or (path == "/api/chat" and request.json["stream"])
    body = json.dumps(request.json)
    asked = read(request)
    asked = replace(asked, has_image=IMAGE in body, result=asked.result or weather_in(body))
    await write(answer_question(asked), stream=stream)(exchange)
