"""Makes the history of a relayed request valid for Anthropic's API, which refuses what other models have written.

A client of the Messages API may change its model in a conversation, and sends all that the models before have written:
ids of calls such as `functions.f:0`, the same id twice, texts of white space, and thinking without a signature.
https://platform.claude.com/docs/en/api/messages

Models of other vendors that are served with this API write such ids and such thinking themselves, and need both back.
So `relay_body` mends the histories of requests to Claude only.
"""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from translation.messages.upstream.lower_items import clean_call_id
from translation.representation.json_types import Json, mapping_or_empty
from translation.representation.loss import Loss
from translation.tools.call_ids import CallIdAllocator

_SIGNATURE_KEYS: Final = {"thinking": "signature", "redacted_thinking": "data"}
"""Type of a block -> the key without which the API refuses it."""


def repair_history(messages: Sequence[Json], losses: list[Loss]) -> Sequence[Json]:
    """Returns messages that Anthropic's API accepts: the same object if it accepts these, so that its cache fits.

    Calls and their results get ids as they have in a translated request. That is no loss: each result still belongs to
    its call, and nothing else refers to an id. Blank texts, and thinking without a signature, which is a loss, are left
    out. Messages of which nothing remains are left out too.
    """
    repair = _Repair()
    repaired = [repair.repair_message(message) for message in messages]
    if repair.has_dropped_thinking:
        losses.append(Loss("messages", "reasoning dropped"))
    if all(one is other for one, other in zip(repaired, messages, strict=True)):
        return messages
    return [one for one, other in zip(repaired, messages, strict=True) if one is other or one["content"]]


class _Repair:
    def __init__(self) -> None:
        self.has_dropped_thinking = False
        self._ids = CallIdAllocator()
        self._open_calls: defaultdict[str, deque[str]] = defaultdict(deque)
        """Id of a client's call -> the ids under which such calls are sent whose result has not come yet."""
        self._last_ids: dict[str, str] = {}
        """Id of a client's call -> the id of the last result of such a call."""

    def repair_message(self, message: Json) -> Json:
        """Returns a message with valid content, which may be empty: the same object if nothing changes."""
        content, role = message.get("content"), message.get("role")
        if role == "assistant" and isinstance(content, str):
            return message if content.strip() else {**message, "content": []}
        if role not in ("assistant", "user") or not isinstance(content, list):
            return message
        if role == "assistant":
            blocks = [self._repair_call(block) for block in content if not self._is_refused(mapping_or_empty(block))]
        else:
            blocks = [self._repair_result(block) for block in content]
        is_same = len(blocks) == len(content) and all(map(_is_same, blocks, content))
        return message if is_same else {**message, "content": blocks}

    def _is_refused(self, block: Mapping[str, Any]) -> bool:
        kind = block.get("type")
        if kind == "text":
            text = block.get("text")
            return isinstance(text, str) and not text.strip()
        if kind not in _SIGNATURE_KEYS or block.get(_SIGNATURE_KEYS[kind]):
            return False
        self.has_dropped_thinking = True
        return True

    def _repair_call(self, block: Any) -> Any:
        if not isinstance(call_id := _id_of(block, "tool_use", "id"), str):
            return block
        sent = self._ids.claim(clean_call_id(call_id))
        self._open_calls[call_id].append(sent)
        return block if sent == call_id else {**block, "id": sent}

    def _repair_result(self, block: Any) -> Any:
        if not isinstance(call_id := _id_of(block, "tool_result", "tool_use_id"), str):
            return block
        if self._open_calls[call_id]:
            self._last_ids[call_id] = self._open_calls[call_id].popleft()
        sent = self._last_ids.get(call_id, call_id)
        return block if sent == call_id else {**block, "tool_use_id": sent}


def _id_of(block: Any, kind: str, key: str) -> Any:
    """Returns a value of a block of a type, else None. Values of relayed requests are the upstream's to judge."""
    fields = mapping_or_empty(block)
    return fields.get(key) if fields.get("type") == kind else None


def _is_same(one: Any, other: Any) -> bool:
    return one is other
