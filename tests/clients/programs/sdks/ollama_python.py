"""Ollama's own client: `ollama_python.py CASE`, with BASE_URL and MODEL in the environment."""

import json
import os
import sys
from typing import Any

from ollama import Client, ResponseError

MODEL = os.environ["MODEL"]
CLIENT = Client(os.environ["BASE_URL"])
MESSAGES: list[Any] = [{"role": "user", "content": os.environ.get("PROMPT", "Go on.")}]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def text() -> Any:
    reply = CLIENT.chat(MODEL, MESSAGES)
    counts = [reply.prompt_eval_count, reply.eval_count]
    return {"text": reply.message.content, "done_reason": reply.done_reason, "counts": counts}


def text_streamed() -> Any:
    parts = list(CLIENT.chat(MODEL, MESSAGES, stream=True))
    return {"deltas": [part.message.content for part in parts[:-1]], "done_reason": parts[-1].done_reason}


def thinking() -> Any:
    message = CLIENT.chat(MODEL, MESSAGES, think=True).message
    return {"thought": message.thinking, "text": message.content}


def generated() -> Any:
    parts = list(CLIENT.generate(MODEL, "Go on.", stream=True, options={"temperature": 0.5, "num_predict": 50}))
    return {"text": "".join(part.response or "" for part in parts), "done_reason": parts[-1].done_reason}


def tools() -> Any:
    messages = [*MESSAGES]
    outputs: list[str] = []
    while True:
        message = CLIENT.chat(MODEL, messages, tools=[add]).message
        messages.append(message)
        if not message.tool_calls:
            return {"text": message.content, "outputs": outputs}
        for call in message.tool_calls:
            outputs.append(str(add(**call.function.arguments)))
            messages.append({"role": "tool", "tool_name": call.function.name, "content": outputs[-1]})


def schema() -> Any:
    shape = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
    return json.loads(CLIENT.chat(MODEL, MESSAGES, format=shape).message.content or "")


def models() -> Any:
    shown = CLIENT.show("demo")
    return {"names": [model.model for model in CLIENT.list().models], "capabilities": shown.capabilities}


def refused() -> Any:
    try:
        CLIENT.chat(MODEL, MESSAGES)
    except ResponseError as error:
        return {"status": error.status_code, "error": error.error}


def broken() -> Any:
    deltas: list[str | None] = []
    try:
        deltas += (part.message.content for part in CLIENT.chat(MODEL, MESSAGES, stream=True))
    except ResponseError as error:
        return {"failed": bool(error.error)}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
