"""`python -m tests.golden.record_llamacpp` records replies of llama.cpp's own server with the tiny model.

`pytest --update-golden` then writes what the recordings mean beside them: read it.
"""

import tempfile
from pathlib import Path
from typing import Any

import httpx
import orjson

from tests.integration.engines import CONTEXT, llama

Json = dict[str, Any]

HERE = Path(__file__).parent
FRESH = httpx.Limits(max_keepalive_connections=0)
CITY: Json = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
QUERY: Json = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
WEATHER: Json = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}
SEARCH: Json = {"type": "function", "function": {"name": "search", "parameters": QUERY}}
SUM: Json = {
    "type": "object",
    "properties": {name: {"type": "integer"} for name in ("a", "b", "sum")},
    "required": ["a", "b", "sum"],
    "additionalProperties": False,
}
NO_THINKING: Json = {"chat_template_kwargs": {"enable_thinking": False}}
CALLED: Json = {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}}


def asking(text: str, *more: Json, **params: Any) -> Json:
    return {"messages": [{"role": "user", "content": text}, *more], **params}


PARIS = "What is the weather in Paris?"
BOTH = "What is the weather in Paris and Rome?"
FORM: Json = {"type": "json_schema", "json_schema": {"name": "sum", "strict": True, "schema": SUM}}

CHATS: dict[str, Json] = {
    "text": asking("What is the capital of France?", **NO_THINKING),
    "reasoning_text": asking("What is the capital of France?"),
    "think_tags": asking("What is the capital of France?", reasoning_format="none"),
    "unicode": asking("Show me unicode.", **NO_THINKING),
    "tool": asking(PARIS, tools=[WEATHER, SEARCH]),
    "tool_no_thinking": asking(PARIS, tools=[WEATHER], **NO_THINKING),
    "tool_parallel": asking(BOTH, tools=[WEATHER], parallel_tool_calls=True),
    "tool_required": asking(PARIS, tools=[WEATHER, SEARCH], tool_choice="required"),
    "tool_result": asking(
        PARIS,
        {"role": "assistant", "content": "", "tool_calls": [CALLED]},
        {"role": "tool", "tool_call_id": "a", "content": "sunny, 21 C"},
        tools=[WEATHER],
    ),
    "json_schema": asking("Give me JSON for 3 + 4.", response_format=FORM, **NO_THINKING),
    "length": asking("Never stop.", max_tokens=12, **NO_THINKING),
    "length_in_reasoning": asking("Think forever.", max_tokens=12),
    "stop": asking("Count to 12.", stop=["5"], **NO_THINKING),
    "logprobs": asking("Hi", logprobs=True, top_logprobs=2, **NO_THINKING),
}
STREAMED_ONLY = {"logprobs"}
"""Requests that are only streamed, because their last digits vary between two runs."""

REFUSED: dict[str, Json] = {
    "context": asking("river " * (CONTEXT + 100)),
    "schema": asking("Hi", response_format={"type": "json_schema", "json_schema": {"schema": {"type": "river"}}}),
    "tools": asking("Hi", tools=[WEATHER], tool_choice="sometimes"),
}
"""Requests with an error reply."""

COMPLETIONS: dict[str, tuple[Json, Json]] = {
    "text": (asking("What is the capital of France?", **NO_THINKING), {}),
    "reasoning_text": (asking("What is the capital of France?"), {}),
    "unicode": (asking("Show me unicode.", **NO_THINKING), {}),
    "tool": (asking(PARIS, tools=[WEATHER]), {}),
    "json_schema": (asking("Give me JSON for 3 + 4.", **NO_THINKING), {"json_schema": SUM}),
    "grammar": (asking("Hi", **NO_THINKING), {"grammar": 'root ::= "yes" | "no"'}),
    "length": (asking("Never stop.", **NO_THINKING), {"n_predict": 12}),
    "stop": (asking("Count to 12.", **NO_THINKING), {"stop": ["5"]}),
    "logprobs": (asking("Hi", **NO_THINKING), {"n_probs": 2}),
}
"""Name -> the chat that becomes the prompt, and other parameters."""


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        llama(Path(folder, "server.log")) as engine,
        httpx.Client(base_url=engine.url, timeout=60, trust_env=False, limits=FRESH) as server,
    ):
        for name, asked in CHATS.items():
            sampled = {"model": "tiny", "temperature": 0, **asked}
            if name not in STREAMED_ONLY:
                whole = server.post("/v1/chat/completions", json=sampled).raise_for_status()
                (HERE / f"chat/llamacpp_{name}.json").write_bytes(whole.content + b"\n")
            streaming = {**sampled, "stream": True, "stream_options": {"include_usage": True}}
            stream = server.post("/v1/chat/completions", json=streaming).raise_for_status()
            (HERE / f"chat/llamacpp_{name}.sse").write_bytes(stream.content)
        for name, asked in REFUSED.items():
            refusal = server.post("/v1/chat/completions", json={**asked, "stream": True})
            reply = {"status": refusal.status_code, "body": refusal.json()}
            (HERE / f"refusals/llamacpp_{name}.json").write_bytes(orjson.dumps(reply) + b"\n")
        for name, (chat, more) in COMPLETIONS.items():
            rendered = server.post("/apply-template", json=chat).raise_for_status().json()["prompt"]
            told = {"content": rendered, "add_special": True, "parse_special": True}
            prompt = server.post("/tokenize", json=told).raise_for_status().json()["tokens"]
            options = {"n_predict": 100, "temperature": 0, "cache_prompt": True, "return_tokens": True}
            kept = {"preserved_tokens": ["<think>", "</think>", "<tool_call>", "</tool_call>"]}
            body = {"prompt": prompt, "stream": True, **options, **kept, **more}
            stream = server.post("/completion", json=body).raise_for_status()
            (HERE / f"completion/llamacpp_{name}.sse").write_bytes(stream.content)


if __name__ == "__main__":
    main()
