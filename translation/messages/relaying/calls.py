"""Checks the calls of relayed messages: clients parse half an input as far as it goes, and call the tool with that."""

from collections.abc import Iterable
from typing import Any, Final

from translation.errors import ProtocolViolation
from translation.exact_numbers import parse_tool_data
from translation.messages.client.reply_objects import complete_usage
from translation.representation.json_types import Json
from translation.tools.arguments import is_object, is_written_as_object, strip_code_fence

REFUSAL: Final = "refusal"
"""The stop reason of a message that the model refused to write."""

CUT_STOP_REASONS: Final = frozenset({"max_tokens", "model_context_window_exceeded", "pause_turn", REFUSAL})
"""Stop reasons that say that the answer was cut off."""

CLIENT_CALL: Final = "tool_use"
"""The type of the blocks with calls that the client runs."""

_CALL_SUFFIX: Final = "tool_use"
"""How the types of all blocks with calls end. Some of the calls are run by the upstream."""

_ENDED: Final = "end_turn"
_OTHER_REASON: Final = {True: (_ENDED, CLIENT_CALL), False: (CLIENT_CALL, _ENDED)}
"""Whether there are calls for the client -> the stop reason that contradicts that, and the right one."""

ODD_STOP_REASON: Final = "the upstream's stop_reason is not a string"

BROKEN_INPUT: Final = "the upstream ended the input of a tool before it was a JSON object"

_UNCHECKED_BETA: Final = "fine-grained-tool-streaming"
"""How the name of the beta begins that all tools of a request are in."""


def accepts_unchecked_inputs(body: Json) -> bool:
    """Returns whether a client has asked for the inputs of calls as the model writes them. Its API does not promise
    such a client that they are JSON, and the client checks them."""
    tools, betas = body.get("tools"), body.get("anthropic_beta")
    return any(isinstance(tool, dict) and tool.get("eager_input_streaming") for tool in tools or ()) or any(
        str(beta).startswith(_UNCHECKED_BETA) for beta in betas or ()
    )


class RelayedInputs:
    """The inputs of the calls of one relayed stream.

    It needs every event that begins a block, and those of blocks with calls.
    """

    def __init__(self) -> None:
        self.has_calls = False
        """Whether there is a call for the client."""
        self._has_broken_input = False
        self._inputs: dict[int, list[str]] = {}
        """Index of an open block with a call -> the pieces of its input."""

    @property
    def is_within_call(self) -> bool:
        """Whether a block with a call is open, so that events about blocks have to be read."""
        return bool(self._inputs)

    def read(self, event: Json) -> None:
        """Reads an event about a block. What has another form than in the API says nothing of a call."""
        match event:
            case {"type": "content_block_start", "index": int(index), "content_block": {"type": str(kind)}}:
                if kind.endswith(_CALL_SUFFIX):
                    self._inputs[index] = []
                    self.has_calls |= kind == CLIENT_CALL
            case {"type": "content_block_delta", "index": int(index), "delta": {"partial_json": str(piece)}}:
                if index in self._inputs:
                    self._inputs[index].append(piece)
            case {"type": "content_block_stop", "index": int(index)}:
                self._has_broken_input |= _is_broken(self._inputs.pop(index, ()))

    @property
    def has_broken_input(self) -> bool:
        """Whether the input of a call ended before it was a JSON object, or has not ended."""
        return self._has_broken_input or any(map(_is_broken, self._inputs.values()))


def _is_broken(pieces: Iterable[str]) -> bool:
    text = "".join(pieces)
    return bool(text.strip()) and not is_written_as_object(text)


def correct_stop_reason(reason: Any, *, has_calls: bool) -> Any:
    """Returns the stop reason that fits the calls of a message, because clients run calls only if it says so.

    Some servers end all messages for the same reason.
    """
    wrong, right = _OTHER_REASON[has_calls]
    return right if reason == wrong else reason


def relay_message(message: Json, model: str | None) -> Json:
    """Returns a whole message of the upstream as the client gets it. `message` itself is not changed.

    `model` replaces the model's name; None keeps the upstream's. The inputs of calls become objects, and counts that
    the usage lacks become 0. Raises ProtocolViolation for a call whose input is none, and for a stop reason that is no
    string.
    """
    relayed = message if model is None else {**message, "model": model}
    usage = complete_usage(message.get("usage"), None)
    if usage is not message.get("usage"):
        relayed = {**relayed, "usage": usage}
    content = message.get("content")
    if not isinstance(message.get("stop_reason"), str | None):
        raise ProtocolViolation(ODD_STOP_REASON)
    if not isinstance(content, list):
        return relayed
    is_cut = message.get("stop_reason") in CUT_STOP_REASONS
    blocks = [_complete_call(block, is_cut=is_cut) for block in content]
    has_calls = any(isinstance(block, dict) and block.get("type") == CLIENT_CALL for block in blocks)
    reason = correct_stop_reason(message.get("stop_reason"), has_calls=has_calls)
    if reason == message.get("stop_reason") and all(new is old for new, old in zip(blocks, content, strict=True)):
        return relayed
    return {**relayed, "content": blocks, "stop_reason": reason}


def _complete_call(block: Any, *, is_cut: bool) -> Any:
    """Returns a block whose input is an object, if it is a call. Some servers send the input as text, or leave it out
    if it is empty. Raises ProtocolViolation for another input, unless the message `is_cut`."""
    if not isinstance(block, dict) or block.get("type") != CLIENT_CALL or isinstance(block.get("input"), dict):
        return block
    given = block.get("input")
    text = strip_code_fence(given) if isinstance(given, str) else ""
    if text.strip() and is_object(text):
        return {**block, "input": parse_tool_data(text)}
    if given is None or given == "":
        return {**block, "input": {}}
    if is_cut:
        return block
    raise ProtocolViolation(BROKEN_INPUT)
