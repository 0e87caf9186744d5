"""A whole response of the upstream is relayed, and says what it lacks."""

from typing import Any

import pytest

from translation.representation.loss import list_reply_losses
from translation.responses.relaying.whole_response import relay_response

LOGPROBS = [{"token": "Y", "logprob": -0.1, "bytes": [89], "top_logprobs": []}]


def message(*parts: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": list(parts)}


def text(value: str = "Yes", **more: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": value, **more}


@pytest.mark.parametrize(
    ("output", "wants_logprobs", "expected"),
    [
        ([message(text())], True, ["include"]),
        ([message(text(logprobs=[]))], True, ["include"]),
        ([message(text(logprobs=LOGPROBS))], True, []),
        ([message(text("a"), text("b", logprobs=LOGPROBS))], True, []),
        ([message(text())], False, []),
        ([message(text(""))], True, []),
        ([{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}], True, []),
        ([{"type": "message", "content": "Yes"}, "text", message("text")], True, []),
    ],
)
def test_texts_without_requested_log_probabilities_are_reported(
    output: list[Any], wants_logprobs: bool, expected: list[str]
) -> None:
    relayed = relay_response({"status": "completed", "output": output}, wants_logprobs=wants_logprobs)
    assert list_reply_losses(relayed) == expected
