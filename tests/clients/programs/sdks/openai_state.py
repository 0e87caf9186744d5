"""The official SDK with state on the server: `openai_state.py CASE`, with BASE_URL and MODEL in the environment."""

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from openai import APIStatusError, OpenAI, pydantic_function_tool
from pydantic import BaseModel

MODEL = os.environ["MODEL"]
CLIENT = OpenAI(base_url=os.environ["BASE_URL"], api_key="none", max_retries=0)
PATIENCE_S = 30.0

# The SDK has no type for a user message in the output of a compaction, and warns about it.
warnings.simplefilter("ignore", UserWarning)


class Add(BaseModel):
    a: int
    b: int


FUNCTION: Any = pydantic_function_tool(Add, name="add")["function"]
TOOLS: Any = [{"type": "function", **FUNCTION}]


def ask(content: Any, **more: Any) -> Any:
    return CLIENT.responses.create(model=MODEL, input=content, **more)


def failing(call: Callable[[], object]) -> Any:
    try:
        call()
    except APIStatusError as error:
        return [type(error).__name__, error.code, error.param]
    return None


def texts(items: Any) -> list[str]:
    return [part.text for item in items for part in item.content]


def continued() -> Any:
    first = ask("I am Ada.", instructions="Be brief.")
    second = ask("Who am I?", previous_response_id=first.id)
    third = list(ask("Are you sure?", previous_response_id=second.id, stream=True))[-1].response
    linked = [second.previous_response_id == first.id, third.previous_response_id == second.id]
    read = CLIENT.responses.retrieve(third.id)
    return {"text": third.output_text, "linked": linked, "same": read.to_dict() == third.to_dict()}


def deleted() -> Any:
    root = ask("Root")
    left = ask("Left", previous_response_id=root.id)
    CLIENT.responses.delete(root.id)
    ask("Leaf", previous_response_id=left.id)
    gone = failing(lambda: CLIENT.responses.retrieve(root.id))
    return {"gone": gone, "continued": failing(lambda: ask("Right", previous_response_id=root.id))}


def tools() -> Any:
    first = ask("Add.", tools=TOOLS)
    (call,) = [item for item in first.output if item.type == "function_call"]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "42"}
    return ask([result], tools=TOOLS, previous_response_id=first.id).output_text


def paged() -> Any:
    response = ask([{"role": "user", "content": str(number)} for number in range(5)])
    forwards = CLIENT.responses.input_items.list(response.id, limit=2, order="asc")
    backwards = CLIENT.responses.input_items.list(response.id, limit=3)
    return {"asc": texts(forwards), "default": texts(backwards)}


def conversation() -> Any:
    there = CLIENT.conversations
    beginning: Any = [{"type": "message", "role": "user", "content": "I am Ada."}]
    kept = there.create(metadata={"topic": "names"}, items=beginning)
    answered = ask("Who am I?", conversation=kept.id)
    there.items.create(kept.id, items=[{"type": "message", "role": "user", "content": "Thanks."}])
    items = list(there.items.list(kept.id, limit=2, order="asc"))
    same = [there.items.retrieve(item.id or "", conversation_id=kept.id) for item in items] == items
    there.items.delete(items[-1].id or "", conversation_id=kept.id)
    there.update(kept.id, metadata={"topic": "Ada"})
    read = there.retrieve(kept.id)
    left = texts(there.items.list(kept.id))
    deleted = there.delete(kept.id).deleted
    return {
        "text": answered.output_text,
        "within": answered.conversation is not None and answered.conversation.id == kept.id,
        "said": texts(items),
        "same": same,
        "topic": read.metadata,
        "left": left,
        "deleted": deleted,
        "gone": failing(lambda: there.retrieve(kept.id)),
    }


def background() -> Any:
    job = ask("Go on.", background=True)
    began = job.status
    deadline = time.monotonic() + PATIENCE_S
    while job.status in ("queued", "in_progress"):
        assert time.monotonic() < deadline
        time.sleep(0.05)  # background responses are polled: the API announces no end
        job = CLIENT.responses.retrieve(job.id)
    return {"began": began, "status": job.status, "text": job.output_text}


def resumed() -> Any:
    """The model continues only after a second request."""
    numbers: list[int] = []
    deltas: list[str] = []

    def read(events: Any, until: str) -> Any:
        for event in events:
            numbers.append(event.sequence_number)
            if event.type == "response.output_text.delta":
                deltas.append(event.delta)
            if event.type == until:
                return event
        raise AssertionError(f"no {until}")

    events = CLIENT.responses.create(model=MODEL, input="Go on.", background=True, stream=True)
    response_id = read(events, "response.created").response.id
    events.close()
    events = CLIENT.responses.retrieve(response_id, stream=True, starting_after=numbers[-1])
    read(events, "response.output_text.delta")
    events.close()
    events = CLIENT.responses.retrieve(response_id, stream=True, starting_after=numbers[-1])
    ask("Let it go on.")
    final = read(events, "response.completed").response
    with CLIENT.responses.stream(response_id=response_id, starting_after=numbers[-2]) as stream:
        replayed = [event.type for event in stream]
        again = stream.get_final_response()
    return {
        "once": numbers == list(range(len(numbers))),
        "deltas": deltas,
        "text": final.output_text,
        "replayed": replayed,
        "same": again.output_text == CLIENT.responses.retrieve(response_id).output_text == final.output_text,
    }


def cancelled() -> Any:
    """The model never ends."""
    events = CLIENT.responses.create(model=MODEL, input="Go on.", background=True, stream=True)
    response_id = next((event.response.id for event in events if event.type == "response.created"), "")
    next(event for event in events if event.type == "response.output_text.delta")
    stopped = CLIENT.responses.cancel(response_id)
    last = list(events)[-1]
    read = CLIENT.responses.retrieve(response_id)
    return {"status": stopped.status, "last": last.type, "read": read.status, "text": read.output_text}


def completions() -> Any:
    there = CLIENT.chat.completions
    kept = [
        there.create(
            model=MODEL, messages=[{"role": "user", "content": text}], store=True, metadata={"topic": topic}
        ).id
        for text, topic in (("One", "a"), ("Two", "b"), ("Three", "a"))
    ]
    listed = [completion.id for completion in there.list(limit=1, metadata={"topic": "a"})]
    changed = there.update(kept[0], metadata={"topic": "c"})
    read = there.retrieve(kept[0])
    messages = [[message.role, message.content] for message in there.messages.list(kept[1])]
    deleted = there.delete(kept[2]).deleted
    return {
        "listed": listed == [kept[0], kept[2]],
        "topic": changed.metadata,
        "text": read.choices[0].message.content,
        "messages": messages,
        "deleted": deleted,
        "left": [completion.id for completion in there.list()] == kept[:2],
        "gone": failing(lambda: there.retrieve(kept[2])),
    }


def compacted() -> Any:
    first = ask("I am Ada.")
    window: Any = CLIENT.responses.compact(model=MODEL, previous_response_id=first.id)
    history = [item.to_dict() for item in window.output]
    second = ask([*history, {"role": "user", "content": "Who am I?"}])
    return {"object": window.object, "types": [item["type"] for item in history], "text": second.output_text}


def counted() -> Any:
    first = ask("I am Ada.")
    alone, after = (
        CLIENT.responses.input_tokens.count(model=MODEL, input="Who am I?", previous_response_id=previous).input_tokens
        for previous in (None, first.id)
    )
    return alone < after


def refused() -> Any:
    wishes: list[dict[str, Any]] = [
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"background": True},
    ]
    calls = [partial(ask, "Go on.", **wish) for wish in wishes]
    readings = [partial(CLIENT.responses.retrieve, "resp_1"), CLIENT.conversations.create]
    return [failing(call) for call in [*calls, *readings]]


print(json.dumps(globals()[sys.argv[1]]()))
