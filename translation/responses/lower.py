"""A Turn to the request body of a Responses upstream."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from translation.errors import Unrepresentable
from translation.lowering.past_reasoning import is_mark
from translation.lowering.unsupported import UNSUCCESSFUL, unsaid_of_output
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Lowered, Turn

_SAMPLING = (
    "temperature",
    "top_p",
    "service_tier",
    "metadata",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
)
"""Parameters that go out as they are."""

_WORDLESS = ("presence_penalty", "frequency_penalty", "seed")
"""Parameters of chat the Responses API has no word for, and an answer survives without."""

_MEANINGFUL = {
    "stop": "stop sequences",
    "logit_bias": "token biases",
}
"""Parameters of chat the Responses API has no word for, and whose loss would change the answer."""

_LOGPROBS = "message.output_text.logprobs"

_SEALED_REASONING = "reasoning.encrypted_content"

_MIN_OUTPUT_TOKENS = 16
"""OpenAI refuses less."""

_KEYS: dict[str, tuple[str, ...]] = {
    "message": ("type", "role", "content", "phase"),
    "function_call": ("type", "call_id", "name", "arguments", "namespace"),
    "function_call_output": ("type", "call_id", "output"),
    "custom_tool_call": ("type", "call_id", "name", "input", "namespace"),
    "custom_tool_call_output": ("type", "call_id", "output"),
}
"""Item type -> the keys that go back. Ids do not: with `store: false` the upstream knows none, and refuses them.
Types that are not listed, and are no reasoning, go as they are.
"""

KNOWN_BY_ID: Final = frozenset({*_KEYS, "reasoning"})
"""Types of items whose ids are no more than their names."""

_SEALED = ("type", "id", "summary", "encrypted_content")
_OPEN = ("type", "id", "summary", "content")
"""The keys of reasoning that goes back. It keeps its id, which the API requires."""


def lower(turn: Turn, profile: Profile) -> Lowered:
    """The body for `POST /responses`. Raises Unrepresentable, naming the parameter, for what it has no word for.

    Nothing is stored upstream: `store` is false whatever the client asked of the gateway.
    """
    losses: list[Loss] = []
    body: Json = {
        "model": turn.model,
        "input": list(_items(turn.items, profile, losses)),
        "store": False,
        "stream": turn.stream,
    }
    if turn.instructions is not None:
        body["instructions"] = turn.instructions
    body |= _tools(turn)
    body |= _sampling(turn, profile, losses)
    if turn.max_output_tokens is not None:
        body["max_output_tokens"] = max(turn.max_output_tokens, _MIN_OUTPUT_TOKENS)
        if turn.max_output_tokens < _MIN_OUTPUT_TOKENS:
            losses.append(Loss("max_output_tokens", f"raised to {_MIN_OUTPUT_TOKENS}"))
    if text := _given(format=turn.text_format, verbosity=turn.verbosity):
        body["text"] = text
    body |= _reasoning(turn, profile, losses)
    for key, said in turn.extra.items():
        if key in profile.extra_params:
            body[key] = said
        else:
            losses.append(Loss(key, "dropped"))
    return Lowered(body, losses)


def _items(items: Sequence[Item], profile: Profile, losses: list[Loss]) -> Iterator[Item]:
    for i, item in enumerate(items):
        kind = item["type"]
        keys = _reasoning_keys(item, profile) if kind == "reasoning" else _KEYS.get(kind)
        if keys == ():
            if not is_mark(item):
                losses.append(Loss(f"input[{i}]", "reasoning dropped"))
            continue
        lowered = item if keys is None else {key: item[key] for key in keys if item.get(key) is not None}
        if kind in KNOWN_BY_ID:
            lowered = _with_id_as_wanted(lowered, item, profile)
        if item.get("status") in UNSUCCESSFUL and kind == "function_call_output":
            lowered = {**lowered, "status": "incomplete"}
        elif kind == "custom_tool_call_output":
            losses += unsaid_of_output(item, f"input[{i}]")
        if kind == "message":
            lowered["content"] = [_part(part) for part in item["content"]]
        yield lowered


def _reasoning_keys(item: Item, profile: Profile) -> tuple[str, ...]:
    """No keys for what the upstream would not read: one that seals its reasoning accepts no other."""
    if item.get("encrypted_content"):
        return _SEALED
    is_open = item.get("content") and item.get("id") and profile.replay_reasoning != "none"
    return _OPEN if is_open else ()


def _with_id_as_wanted(lowered: Item, item: Item, profile: Profile) -> Item:
    if profile.replay_ids == "drop":
        return {key: said for key, said in lowered.items() if key != "id"}
    return {**lowered, "id": item["id"]} if profile.replay_ids == "keep" and item.get("id") else lowered


def replayed(items: Sequence[Item], profile: Profile) -> tuple[list[Item], list[Loss]]:
    """Items of earlier turns for an upstream that keeps nothing; and what it will not be told."""
    losses: list[Loss] = []
    return list(_items(items, profile, losses)), losses


def _part(part: Json) -> Json:
    match part["type"]:
        case "output_text":
            # An API that knows files by their ids cannot know one that has none, because it went as it is.
            cited = [each for each in part.get("annotations") or () if each.get("file_id") != ""]
            return {"type": "output_text", "text": part["text"], "annotations": cited}
        case _:
            return part


def _tools(turn: Turn) -> Json:
    if not turn.tools:
        return {}
    tools = [_function(tool) if tool["type"] == "function" else tool for tool in turn.tools]
    return _given(tools=tools, tool_choice=turn.tool_choice, parallel_tool_calls=turn.parallel_tool_calls)


def _function(tool: Json) -> Json:
    # Chat may leave the parameters out, which means there are none; the Responses API requires the key.
    return tool if tool.get("parameters") is not None else {**tool, "parameters": {"type": "object", "properties": {}}}


def _sampling(turn: Turn, profile: Profile, losses: list[Loss]) -> Json:
    asked = turn.sampling
    if (asked.get("n") or 1) > 1:
        raise Unrepresentable("the Responses API gives one choice per request: send n requests instead", param="n")
    body = {key: asked[key] for key in _SAMPLING if key in asked}
    for key in (*_WORDLESS, *_MEANINGFUL):
        if not asked.get(key):
            continue
        if key in profile.extra_params:
            body[key] = asked[key]
        elif key in _MEANINGFUL:
            raise Unrepresentable(f"the Responses API has no {_MEANINGFUL[key]}: leave out {key!r}", param=key)
        else:
            losses.append(Loss(key, "dropped"))
    if asked.get("store"):
        losses.append(Loss("store", "dropped"))
    if asked.get("logprobs"):
        body |= _given(top_logprobs=asked.get("top_logprobs"))
    wanted = [(_LOGPROBS, asked.get("logprobs")), (_SEALED_REASONING, turn.sealed_reasoning)]
    return body | _given(include=[name for name, is_wanted in wanted if is_wanted] or None)


def _reasoning(turn: Turn, profile: Profile, losses: list[Loss]) -> Json:
    body: Json = {}
    asked = turn.reasoning or {}
    if said := _given(effort=asked.get("effort"), summary=asked.get("summary")):
        body["reasoning"] = said
    if asked.get("max_tokens") is not None:
        losses.append(Loss("reasoning.max_tokens", "dropped"))
    if turn.thinking is not None:
        if profile.thinking_switch == "chat_template_kwargs":
            body["chat_template_kwargs"] = {"enable_thinking": turn.thinking}
        else:
            losses.append(Loss("thinking", "dropped"))
    return body


def _given(**values: Any) -> Json:
    return {key: value for key, value in values.items() if value is not None}
