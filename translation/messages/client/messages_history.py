"""Lifts the messages of a request of the Messages API to Responses items. Does not know the request's parameters."""

from collections.abc import Iterator, Sequence
from typing import Final

import orjson

from translation.hygiene.item_groups import add_empty_end
from translation.messages.client.mcp_servers import add_mcp_result, lift_mcp_use
from translation.messages.client.parts import lift_answer_text, lift_block, lift_parts
from translation.messages.client.searches import add_search_result, is_search_use, lift_search_use
from translation.representation.items import new_input_text
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss

CALL_CARRIER_PREFIX: Final = "call."
"""The prefix of the `data` of a `redacted_thinking` block that belongs to the call before it."""

SIGNATURE_CARRIER_PREFIX: Final = "signature."
"""The prefix of the `data` of a `redacted_thinking` block that holds the signatures of calls after it, and no
thinking."""

_CARRIED_TYPES: Final = frozenset({"function_call", "web_search_call"})
"""Types of items that such a block can follow."""

_FAILURE_PREFIX: Final = "Error: "

_FAILURE_HINT: Final = "error"
"""A result with this word near its beginning already reports that the call failed."""

_MAX_HINT_CHARS: Final = 60

_SUMMARY_INTRODUCTION: Final = "The conversation before this message was replaced by this summary of it:\n\n"


def lift_history(messages: Sequence[Json], losses: list[Loss]) -> list[Item]:
    """Returns the messages as items in full form. Losses are appended to `losses`.

    Raises Unrepresentable for a content block that no item can represent.
    """
    last_user = max((index for index, message in enumerate(messages) if message["role"] == "user"), default=-1)
    items: list[Item] = []
    hosted_calls: dict[tuple[str, str], Item] = {}
    """The calls of tools that the client does not run, by type and id. A result may be in a later message."""
    for index, message in enumerate(messages):
        param = f"messages[{index}].content"
        match message["role"]:
            case "assistant":
                _lift_assistant(message["content"], items, hosted_calls, losses)
            case "user":
                _lift_user(message["content"], param, items, losses)
            case _:
                if message.get("output_config"):
                    losses.append(Loss("messages.output_config", "dropped"))
                # Such a message is for the turn that it is in. Then it stays in the client's history only.
                if not (message.get("clear_at") == "next_user_message" and index < last_user):
                    items += _lift_system(message, param, losses)
    if messages and (role := messages[-1]["role"]) != "assistant":
        add_empty_end(items, "user" if role == "user" else "developer")
    return items


def _lift_system(message: Json, param: str, losses: list[Loss]) -> Iterator[Item]:
    content = message.get("content") or ()
    blocks = content if isinstance(content, str) else [block for block in content if not _is_tool_change(block)]
    if blocks:
        yield {"type": "message", "role": "developer", "content": lift_parts(blocks, param, losses)}


def _is_tool_change(block: Json) -> bool:
    return block["type"] in ("tool_addition", "tool_removal")


def _lift_user(content: str | Sequence[Json], param: str, items: list[Item], losses: list[Loss]) -> None:
    if isinstance(content, str):
        items.append(_user_message([new_input_text(content)]))
        return
    parts: list[Json] = []
    for index, block in enumerate(content):
        if block["type"] not in ("tool_result", "compaction"):
            parts += lift_block(block, f"{param}[{index}]", losses)
            continue
        if parts:
            items.append(_user_message(parts))
            parts = []
        if block["type"] == "tool_result":
            items.append(_lift_result(block, f"{param}[{index}].content", losses))
        else:
            _lift_compaction(block, items, losses)
    if parts:
        items.append(_user_message(parts))


def _user_message(parts: list[Json]) -> Item:
    return {"type": "message", "role": "user", "content": parts}


def _lift_result(block: Json, param: str, losses: list[Loss]) -> Item:
    parts = lift_parts(block.get("content") or (), param, losses)
    output: Item = {"type": "function_call_output", "call_id": block["tool_use_id"], "output": parts}
    if all(part["type"] == "input_text" for part in parts):
        output["output"] = "\n".join(part["text"] for part in parts)
    if block.get("is_error"):
        # Few upstreams have a field for a call that failed, so the text of the output reports it.
        output["output"] = _report_failure(output["output"])
        output["status"] = "failed"
    return output


def _report_failure(output: str | list[Json]) -> str | list[Json]:
    if isinstance(output, str):
        return output if _FAILURE_HINT in output[:_MAX_HINT_CHARS].lower() else _FAILURE_PREFIX + output
    return [new_input_text(_FAILURE_PREFIX), *output]


def _lift_assistant(
    content: str | Sequence[Json], items: list[Item], hosted_calls: dict[tuple[str, str], Item], losses: list[Loss]
) -> None:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    texts: list[Json] | None = None
    """The parts of the last message item, while text blocks follow each other."""
    last: Item | None = None
    """The item of the block before, to which a carrier belongs. Results of several searches follow all their calls."""
    for block in blocks:
        if block["type"] == "text":
            if texts is None:
                texts = []
                items.append({"type": "message", "role": "assistant", "content": texts})
            texts.append(lift_answer_text(block, losses))
            last = None
            continue
        texts = None
        match block["type"]:
            case "thinking":
                items.append(_lift_thinking(block))
            case "redacted_thinking":
                _lift_redacted(block["data"], last, items)
            case "tool_use":
                items.append(_lift_call(block))
            case "mcp_tool_use":
                items.append(_index_call(lift_mcp_use(block), hosted_calls))
            case "mcp_tool_result" if add_mcp_result(block, hosted_calls):
                pass
            case "server_tool_use" if is_search_use(block):
                items.append(_index_call(lift_search_use(block), hosted_calls))
            case "compaction":
                _lift_compaction(block, items, losses)
            case "web_search_tool_result" if (search := add_search_result(block, hosted_calls)) is not None:
                last = search
                continue
            case kind:
                losses.append(Loss("messages", f"{kind:.50} dropped"))
        last = items[-1] if items else None


def _lift_compaction(block: Json, items: list[Item], losses: list[Loss]) -> None:
    """Replaces the items so far by the summary of a compaction. One that failed has none and replaces nothing."""
    if block.get("content"):
        items[:] = [_user_message([new_input_text(_SUMMARY_INTRODUCTION + block["content"])])]
    else:
        losses.append(Loss("messages", "compaction dropped"))


def _index_call(item: Item, hosted_calls: dict[tuple[str, str], Item]) -> Item:
    """Adds a call to the index, from which its result finds it, and returns it."""
    hosted_calls[item["type"], item["id"]] = item
    return item


def _lift_thinking(block: Json) -> Item:
    item: Item = {"type": "reasoning", "summary": []}
    if block["thinking"]:
        item["content"] = [{"type": "reasoning_text", "text": block["thinking"]}]
    if block.get("signature"):
        item["encrypted_content"] = block["signature"]
    return item


def _lift_redacted(data: str, last: Item | None, items: list[Item]) -> None:
    if data.startswith(CALL_CARRIER_PREFIX):
        if last is not None and last["type"] in _CARRIED_TYPES:
            last["encrypted_content"] = data.removeprefix(CALL_CARRIER_PREFIX)
        return
    sealed = data.removeprefix(SIGNATURE_CARRIER_PREFIX)
    items.append({"type": "reasoning", "summary": [], "encrypted_content": sealed})


def _lift_call(block: Json) -> Item:
    arguments = orjson.dumps(block["input"]).decode()
    return {"type": "function_call", "call_id": block["id"], "name": block["name"], "arguments": arguments}
