"""Messages, stored items and runs of a thread."""

from typing import Any

from translation.agui.interrupts import RequestStates
from translation.agui.request_body import RunRequest, build_run_request
from translation.agui.schema import validate
from translation.responses.schema.request import validate as validate_responses

Json = dict[str, Any]

HELLO: Json = {"id": "1", "role": "user", "content": "hello"}
MORE: Json = {"id": "3", "role": "user", "content": "more"}

STORED_HELLO: Json = {
    "type": "message",
    "id": "msg_0",
    "role": "user",
    "content": [{"type": "input_text", "text": "hello"}],
}
STORED_ANSWER: Json = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
}
REQUEST: Json = {
    "id": "mcpr_1",
    "type": "mcp_approval_request",
    "server_label": "docs",
    "name": "search",
    "arguments": '{"q":1}',
}
APPROVED_CALL: Json = {
    **REQUEST,
    "id": "mcp_1",
    "type": "mcp_call",
    "output": "found",
    "error": None,
    "approval_request_id": "mcpr_1",
}


def calling(call_id: str, name: str = "add", arguments: str = '{"a":1}') -> Json:
    function = {"name": name, "arguments": arguments}
    return {
        "id": call_id,
        "role": "assistant",
        "toolCalls": [{"id": call_id, "type": "function", "function": function}],
    }


def result(call_id: str, content: str = "3") -> Json:
    return {"id": f"{call_id}:result", "role": "tool", "toolCallId": call_id, "content": content}


OPEN = RequestStates(open_ids={"mcpr_1"})


def build(*messages: Json, stored: Any = (), request_states: RequestStates = OPEN, **more: Any) -> RunRequest:
    body = {"threadId": "t", "runId": "r", "messages": list(messages), **more}
    validate(body)
    request = build_run_request(body, model="m", stored=stored, request_states=request_states)
    validate_responses(request.body)
    return request


def types(items: Any) -> list[str]:
    return [item["type"] for item in items]
