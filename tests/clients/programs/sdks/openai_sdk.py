"""The official SDK: `openai_sdk.py CASE`, with BASE_URL and MODEL in the environment."""

import json
import os
import sys
from typing import Any

from openai import APIStatusError, OpenAI, pydantic_function_tool
from pydantic import BaseModel

MODEL = os.environ["MODEL"]
CLIENT = OpenAI(base_url=os.environ["BASE_URL"], api_key="none", max_retries=0)
MESSAGES: Any = [{"role": "user", "content": "Go on."}]


class Total(BaseModel):
    total: int


class Add(BaseModel):
    a: int
    b: int


FUNCTION: Any = pydantic_function_tool(Add, name="add")["function"]
TOOLS: Any = [{"type": "function", **FUNCTION}]


def response() -> Any:
    got = CLIENT.responses.create(model=MODEL, input="Go on.")
    assert got.usage
    return {"text": got.output_text, "usage": [got.usage.input_tokens, got.usage.output_tokens]}


def response_streamed() -> Any:
    with CLIENT.responses.stream(model=MODEL, input="Go on.", tools=TOOLS) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    return {"deltas": deltas, "text": final.output_text, "output": [item.type for item in final.output]}


def response_parsed() -> Any:
    got = CLIENT.responses.parse(model=MODEL, input="Go on.", text_format=Total).output_parsed
    return got and got.model_dump()


def completion() -> Any:
    got = CLIENT.chat.completions.create(model=MODEL, messages=MESSAGES)
    assert got.usage
    usage = [got.usage.prompt_tokens, got.usage.completion_tokens]
    return {"text": got.choices[0].message.content, "usage": usage}


def completion_streamed() -> Any:
    options: Any = {"include_usage": True}
    with CLIENT.chat.completions.stream(model=MODEL, messages=MESSAGES, stream_options=options) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta" and event.delta]
        final = stream.get_final_completion()
    assert final.usage
    return {"deltas": deltas, "text": final.choices[0].message.content, "usage": final.usage.total_tokens}


def completion_parsed() -> Any:
    got = CLIENT.chat.completions.parse(model=MODEL, messages=MESSAGES, response_format=Total)
    parsed = got.choices[0].message.parsed
    return parsed and parsed.model_dump()


def completion_tools() -> Any:
    tools = [pydantic_function_tool(Add, name="add")]
    first = CLIENT.chat.completions.parse(model=MODEL, messages=MESSAGES, tools=tools).choices[0].message
    (call,) = first.tool_calls or ()
    arguments: Any = call.function.parsed_arguments
    result = str(arguments.a + arguments.b)
    output = {"role": "tool", "tool_call_id": call.id, "content": result}
    function = {"name": call.function.name, "arguments": call.function.arguments}
    said = {"role": "assistant", "tool_calls": [{"id": call.id, "type": "function", "function": function}]}
    history: Any = [*MESSAGES, said, output]
    second = CLIENT.chat.completions.create(model=MODEL, messages=history)
    return {"text": second.choices[0].message.content, "result": result}


def failure() -> Any:
    try:
        return response()
    except APIStatusError as error:
        name = type(error).__name__
        return {"name": name, "code": error.code, "message": error.message, "request": bool(error.request_id)}


def failure_streamed() -> Any:
    deltas = []
    for event in CLIENT.responses.create(model=MODEL, input="Go on.", stream=True):
        if event.type == "response.output_text.delta":
            deltas.append(event.delta)
        if event.type == "response.failed":
            return {"deltas": deltas, "code": event.response.error and event.response.error.code}
    return None


def models() -> Any:
    return [model.id for model in CLIENT.models.list()] + [CLIENT.models.retrieve(MODEL).id]


def websocket() -> Any:
    output = []
    with CLIENT.responses.connect() as connection:
        previous = None
        for asked in ("Hello", "Again"):
            connection.response.create(model=MODEL, input=asked, store=False, previous_response_id=previous)
            for event in connection:
                if event.type == "response.completed":
                    output.append(event.response.output_text)
                    previous = event.response.id
                    break
    return output


print(json.dumps(globals()[sys.argv[1]]()))
