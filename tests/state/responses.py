"""Responses as the gateway would hand them to the store."""

import itertools
import time
from typing import Any

from gateway.state.store import Store
from gateway.state.values import NewResponse
from translation.hosted.approvals import ApprovalRecord
from translation.representation.json_types import Item, Json

WORKER = "worker-1"

_numbers = itertools.count()


def response(status: str = "in_progress", **fields: Any) -> Json:
    """A response object; keys stand where the gateway has them."""
    return {
        "id": f"resp_{next(_numbers)}",
        "object": "response",
        "status": status,
        "background": False,
        "error": None,
        "output": [],
        "usage": None,
        "metadata": {"z": "1", "a": "ü\u2028"},
    } | fields


def message_item(text: str) -> Item:
    return {
        "type": "message",
        "id": f"msg_{next(_numbers)}",
        "role": "user",
        "content": [{"type": "input_text", "text": text}],
    }


def answered(text: str) -> Item:
    return {
        "type": "message",
        "id": f"msg_{next(_numbers)}",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def build_approval(request_id: str, response_id: str = "resp_asking", **fields: Any) -> ApprovalRecord:
    """The record of a request for an approval, open for an hour."""
    known: dict[str, Any] = {
        "id": request_id,
        "response_id": response_id,
        "server_label": "calc",
        "tool_name": "add",
        "origin": "https://calc.example.com",
        "arguments_digest": "a" * 64,
        "definition_digest": "d" * 64,
        "expires_us": time.time_ns() // 1000 + 3_600_000_000,
    }
    return ApprovalRecord(**known | fields)


def new(begun: Json, *items: Item, owner: str = "ann", worker: str | None = WORKER, **fields: Any) -> NewResponse:
    return NewResponse(owner=owner, response=begun, input_items=items, worker=worker, **fields)


def completed(begun: Json, *output: Item) -> Json:
    return begun | {
        "status": "completed",
        "output": list(output),
        "usage": {"input_tokens": 1, "output_tokens": len(output), "total_tokens": 1 + len(output)},
    }


async def turn(store: Store, text: str, parent: Json | None = None, *, owner: str = "ann", **fields: Any) -> Json:
    """A whole turn: `text`, answered with its upper case."""
    begun = response()
    await store.responses.create_response(
        new(begun, message_item(text), owner=owner, parent_id=parent and parent["id"], **fields)
    )
    ended = completed(begun, answered(text.upper()))
    await store.responses.finish_response(owner, ended, worker=WORKER)
    return ended


def texts(items: Any) -> list[str]:
    return [part["text"] for item in items for part in item["content"]]
