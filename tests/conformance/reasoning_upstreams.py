"""Upstreams of every type that think, call a function, and need data back; and a gateway before all of them."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, NamedTuple

from openai import AsyncOpenAI

from tests.serving import Gateway, serving
from tests.unit.support.harmony import marked, real
from tests.upstream import Script, ScriptedUpstream, harmony
from tests.upstream.anthropic import anthropic_calls, anthropic_text, thinking_block
from tests.upstream.builders import (
    CHAT_USAGE,
    SSE,
    chat_chunk,
    chat_json,
    chat_sse,
    chat_text,
    data_frame,
    either,
    json_reply,
    response_snapshot,
    responses_sse,
    responses_text,
)
from tests.upstream.gemini import call as gemini_call
from tests.upstream.gemini import chunk as gemini_chunk
from tests.upstream.gemini import last as gemini_last
from tests.upstream.gemini import text as gemini_text
from tests.upstream.gemini import thought as gemini_thought
from tests.upstream.ollama import call as ollama_call
from tests.upstream.ollama import ollama_calls, ollama_shown, ollama_text
from tests.upstream.script import Exchange, Reply

Json = dict[str, Any]

THOUGHT = "The sum is wanted."
CHAT_CALL: Json = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}
TOOLS: list[Any] = [
    {
        "type": "function",
        "name": "add",
        "strict": False,
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    }
]
QUESTION: list[Any] = [{"role": "user", "content": "Add."}]
SEALED_REASONING: list[Any] = ["reasoning.encrypted_content"]


def _chat(reasoning: Json) -> Script:
    """Reasoning, then a call, in one chat reply."""
    call = {**CHAT_CALL, "index": 0}
    chunks = [chat_chunk(reasoning), chat_chunk({"tool_calls": [call]}), chat_chunk({}, "tool_calls")]
    whole = chat_json(finish_reason="tool_calls", tool_calls=[CHAT_CALL], **reasoning)
    return either(chat_sse([*chunks, chat_chunk(usage=CHAT_USAGE)]), whole)


def _responses(**reasoning: Any) -> Script:
    """Reasoning, then a call, of a Responses upstream."""
    thought = {"id": "rs_1", "type": "reasoning", "summary": [], **reasoning}
    call = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "add", "arguments": '{"a":1}'}
    call["status"] = "completed"
    output: list[Json] = [thought, call]
    events: list[Json] = [{"type": "response.created", "response": response_snapshot("in_progress")}]
    for index, item in enumerate(output):
        kinds = ("response.output_item.added", "response.output_item.done")
        events += [{"type": kind, "output_index": index, "item": item} for kind in kinds]
    events.append({"type": "response.completed", "response": response_snapshot("completed", output)})
    return either(responses_sse(events), json_reply(response_snapshot("completed", output)))


def openly_thinking() -> Script:
    """A Responses upstream that seals nothing."""
    return _responses(content=[{"type": "reasoning_text", "text": THOUGHT}])


def _gemini(*parts: Json) -> Script:
    *first, final = parts
    chunks = [*map(gemini_chunk, first), gemini_last(final)]
    return either(Reply(headers=SSE, body=list(map(data_frame, chunks))), json_reply(gemini_last(*parts)))


def _harmony(text: str) -> Script:
    """Output of gpt-oss with its control tokens as text. It is encoded when it is sent: the encoding loads slowly."""

    async def answer(exchange: Exchange) -> None:
        said = harmony.last(len(marked(text)), tokens=marked(text))
        await either(Reply(headers=SSE, body=data_frame(said)), json_reply(said))(exchange)

    return answer


class Upstream(NamedTuple):
    """A type of upstream. `needed`: what its second request must have again, of its first reply; what is `secret` no
    client may read and no other upstream be sent."""

    type: str
    calling: Script
    answering: Script
    needed: str
    secret: bool = True


_THINKING_AND_CALLING = (
    f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>commentary to=functions.add "
    '<|constrain|>json<|message|>{"a":1}<|call|>'
)
_ANSWERING = "<|channel|>final<|message|>Three.<|return|>"
_ADD = ollama_call("add", a=1)
DETAIL = {"type": "reasoning.text", "text": THOUGHT, "signature": "signed-by-router", "index": 0}

UPSTREAMS: dict[str, Upstream] = {
    each.type: each
    for each in (
        Upstream(
            "openai",
            _responses(summary=[{"type": "summary_text", "text": THOUGHT}], encrypted_content="sealed-by-openai"),
            responses_text("Three."),
            "sealed-by-openai",
        ),
        Upstream(
            "openrouter",
            _chat({"reasoning": THOUGHT, "reasoning_details": [DETAIL]}),
            chat_text("Three."),
            "signed-by-router",
        ),
        Upstream(
            "anthropic",
            anthropic_calls(("toolu_1", "add", {"a": 1}), thinking=[thinking_block(THOUGHT, "signed-by-claude")]),
            anthropic_text("Three."),
            "signed-by-claude",
        ),
        Upstream(
            "gemini",
            _gemini(gemini_thought(THOUGHT), gemini_call("add", {"a": 1}, "signed-by-gemini")),
            _gemini(gemini_text("Three.")),
            "signed-by-gemini",
        ),
        Upstream("openai_compatible", _chat({"reasoning_content": THOUGHT}), chat_text("Three."), THOUGHT, False),
        Upstream("vllm", _chat({"reasoning": THOUGHT}), chat_text("Three."), THOUGHT, False),
        Upstream("llama_server", _chat({"reasoning_content": THOUGHT}), chat_text("Three."), THOUGHT, False),
        Upstream("harmony", _harmony(_THINKING_AND_CALLING), _harmony(_ANSWERING), THOUGHT, False),
        Upstream(
            "ollama", ollama_calls(ollama_call("add", a=1), thinking=THOUGHT), ollama_text("Three."), THOUGHT, False
        ),
    )
}
SECRETS = [each.needed for each in UPSTREAMS.values() if each.secret]


def model_of(kind: str) -> str:
    return f"{kind}-gemini-3-claude-opus-4-6"


@contextmanager
def gateway_before(upstreams: dict[str, ScriptedUpstream], **sections: Any) -> Iterator[Gateway]:
    """A gateway whose providers and models are named after the types of their upstreams."""
    providers: Json = {
        kind: {
            "type": kind,
            "base_url": upstream.url.removesuffix("/v1") if kind == "ollama" else upstream.url,
            **({} if kind in ("vllm", "ollama") else {"api_key": "k"}),
        }
        for kind, upstream in upstreams.items()
    }
    models = {model_of(kind): {"provider": kind} for kind in upstreams}
    with serving({"providers": providers, "models": models, **sections}) as gateway:
        yield gateway


@asynccontextmanager
async def every_upstream(*kinds: str) -> AsyncIterator[dict[str, ScriptedUpstream]]:
    """Yields upstreams of these types, or of all. Each makes a call in its first reply, and answers in all others."""
    async with AsyncExitStack() as running:
        found: dict[str, ScriptedUpstream] = {}
        for kind in kinds or UPSTREAMS:
            upstream = found[kind] = await running.enter_async_context(ScriptedUpstream())
            upstream.script(UPSTREAMS[kind].calling, UPSTREAMS[kind].answering)
            upstream.on("/api/show", ollama_shown("completion", "tools", "thinking"))
        yield found


def client_of(gateway: Gateway, key: str = "none") -> AsyncOpenAI:
    return AsyncOpenAI(base_url=gateway.v1, api_key=key, max_retries=0)


def sent(upstream: ScriptedUpstream) -> str:
    """Returns the body of the last generation request; for a prompt in tokens, its text."""
    body = upstream.requests[-1].json
    return json.dumps(real().decode(body["prompt"]) if "prompt" in body else body)


def resent(output: list[Any]) -> list[Any]:
    """Returns items as a strict client sends them back: reasoning has only the documented fields."""
    items: list[Any] = []
    for item in output:
        whole = item if isinstance(item, dict) else item.model_dump(exclude_none=True)
        if whole["type"] == "reasoning":
            whole = {name: whole[name] for name in ("type", "id", "summary", "encrypted_content") if name in whole}
        items.append(whole)
    return items


def returned(output: list[Any]) -> list[Any]:
    """The outputs of the calls in it."""
    calls = [item for item in resent(output) if item["type"] == "function_call"]
    return [{"type": "function_call_output", "call_id": call["call_id"], "output": "3"} for call in calls]


def check_sealed(output: list[Any]) -> None:
    """Checks that no unsealed data of an upstream is in it."""
    items = resent(output)
    assert [item["type"] for item in items].count("function_call") == 1
    whole = str([item if isinstance(item, dict) else item.model_dump() for item in output])
    assert "'details'" not in whole
    assert not [secret for secret in SECRETS if secret in whole]
