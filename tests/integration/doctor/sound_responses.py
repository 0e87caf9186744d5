"""The sound model behind an upstream's own Responses API."""

import json

from tests.integration.doctor.sound_models import SIGNATURE, Json, ModelReply, ModelRequest, Refused
from tests.upstream import Script, error_reply, json_reply, responses_sse
from tests.upstream.builders import RESPONSES_USAGE, message_item, response_snapshot
from tests.upstream.request import Request


def read_responses(request: Request) -> ModelRequest:
    body = request.json
    given = body["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    contents = [item["content"] for item in items if item.get("role") == "user"]
    last = contents[-1]
    question = last if isinstance(last, str) else " ".join(str(part.get("text", "")) for part in last)
    choice = body.get("tool_choice")
    has_result = items[-1].get("type") == "function_call_output"
    thinks = bool((body.get("reasoning") or {}).get("effort"))
    sealed = any(item.get("encrypted_content") == SIGNATURE for item in items)
    return ModelRequest(
        model=body["model"],
        question=question,
        tools=tuple(tool["name"] for tool in body.get("tools") or ()),
        forced=choice["name"] if isinstance(choice, dict) else None,
        has_result=has_result,
        has_schema=((body.get("text") or {}).get("format") or {}).get("type") == "json_schema",
        limit=body.get("max_output_tokens"),
        thinks=thinks,
        strange="stop" in body,
        forgotten=has_result and thinks and not sealed,
    )


def write_responses(answer: ModelReply | Refused, *, stream: bool) -> Script:
    if isinstance(answer, Refused) and answer.why == "stop":
        error = {"message": "Unknown parameter: 'stop'.", "param": "stop", "code": "unknown_parameter"}
        return json_reply({"error": {"type": "invalid_request_error", **error}}, 400)
    if isinstance(answer, Refused):
        told = {
            "unknown": (404, "there is no such model", "model_not_found"),
            "long": (400, "the prompt is too long", "context_length_exceeded"),
            "unsigned": (400, "a function_call was sent without its reasoning item", None),
        }
        status, words, code = told[answer.why]
        return error_reply(status, words, code=code)
    output = [*_thought(answer), *_message(answer), *_calls(answer)]
    usage = {**RESPONSES_USAGE, "output_tokens": answer.tokens, "total_tokens": 9 + answer.tokens}
    ending, details = ("incomplete", {"reason": "max_output_tokens"}) if answer.cut else ("completed", None)
    final = response_snapshot(ending, output, usage=usage, incomplete_details=details)
    if not stream:
        return json_reply(final)
    begun = response_snapshot("in_progress")
    events = [{"type": f"response.{word}", "response": begun} for word in ("created", "in_progress")]
    for index, item in enumerate(output):
        events += _events(index, item, answer.text)
    return responses_sse([*events, {"type": f"response.{ending}", "response": final}])


def _thought(answer: ModelReply) -> list[Json]:
    part = {"type": "summary_text", "text": answer.thought}
    item = {"id": "rs_1", "type": "reasoning", "summary": [part], "encrypted_content": SIGNATURE}
    return [item] if answer.thought else []


def _message(answer: ModelReply) -> list[Json]:
    return [message_item("".join(answer.text))] if answer.text else []


def _calls(answer: ModelReply) -> list[Json]:
    return [
        {
            "id": f"fc_{number}",
            "type": "function_call",
            "status": "completed",
            "call_id": f"call_{number}",
            "name": name,
            "arguments": json.dumps(arguments),
        }
        for number, (name, arguments) in enumerate(answer.calls)
    ]


def _events(index: int, item: Json, pieces: tuple[str, ...]) -> list[Json]:
    place = {"item_id": item["id"], "output_index": index}
    empty: Json
    match item["type"]:
        case "message":
            part, place["content_index"] = item["content"][0], 0
            empty, within, word, said = {"content": []}, "response.content_part", "output_text", pieces
        case "reasoning":
            part, place["summary_index"] = item["summary"][0], 0
            empty, within, word = {"summary": []}, "response.reasoning_summary_part", "reasoning_summary_text"
            said = (part["text"],)
        case _:
            part, within, word = None, "", "function_call_arguments"
            empty, said = {"arguments": ""}, (item["arguments"][:3], item["arguments"][3:])
    key = "text" if part else "arguments"
    events = [{"type": "response.output_item.added", "output_index": index, "item": {**item, **empty}}]
    events += [{"type": f"{within}.added", **place, "part": {**part, "text": ""}}] if part else []
    events += [{"type": f"response.{word}.delta", **place, "delta": piece} for piece in said]
    events += [{"type": f"response.{word}.done", **place, key: "".join(said)}]
    events += [{"type": f"{within}.done", **place, "part": part}] if part else []
    return [*events, {"type": "response.output_item.done", "output_index": index, "item": item}]
