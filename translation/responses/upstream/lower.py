"""Lowers a turn to the request body of a Responses upstream. Does not know the endpoint the request came from."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from translation.errors import Unrepresentable
from translation.lowering.media import refuse_google_file, require_address
from translation.lowering.reasoning import (
    find_thinking_losses,
    is_signature_only,
    with_effort_for_budget,
    with_readable_content,
)
from translation.lowering.system_items import merge_system_items
from translation.lowering.unsupported import UNSUCCESSFUL_STATUSES, find_output_losses, find_unknown_key_losses
from translation.representation.json_types import Item, Json, mapping_or_empty
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import SERVICE_PARAMS, LoweredRequest, Turn
from translation.tools.choice import require_no_choice
from translation.tools.declared_functions import complete_parameters
from translation.tools.searches import SEARCH_ITEM, is_search_tool

TURN_PARAMS: Final[Mapping[str, str]] = {
    "text.format": "text.format",
    "text.verbosity": "text.verbosity",
    "reasoning.effort": "reasoning.effort",
    "reasoning.summary": "reasoning.summary",
}
"""Parameter of a Responses request with more than one key -> the turn's. Turns have the names of this API."""

_COPIED_PARAMS = ("temperature", "top_p", "stop", *SERVICE_PARAMS)
"""Parameters that are sent unchanged. The turn has `stop` only for upstreams that extend the API by it."""

_DROPPED_PARAMS = ("presence_penalty", "frequency_penalty", "seed")
"""Chat parameters that the Responses API does not have. Without them the meaning of the reply is the same."""

_REFUSED_PARAMS = {
    "logit_bias": "token biases",
}
"""Chat parameters that the Responses API does not have. Dropping them would change the reply. Parameter -> its name in
the error message."""

_LOGPROBS = "message.output_text.logprobs"

_SEALED_REASONING = "reasoning.encrypted_content"

_SEARCH_SOURCES = "web_search_call.action.sources"

_MIN_OUTPUT_TOKENS = 16
"""The smallest `max_output_tokens` that OpenAI accepts."""

_REPLAYED_KEYS: dict[str, tuple[str, ...]] = {
    "message": ("type", "role", "content", "phase"),
    "function_call": ("type", "call_id", "name", "arguments", "namespace"),
    "function_call_output": ("type", "call_id", "output"),
    "custom_tool_call": ("type", "call_id", "name", "input", "namespace"),
    "custom_tool_call_output": ("type", "call_id", "output"),
}
"""Item type -> the keys that are sent back. Ids are not: with `store: false` the upstream knows none and refuses them.
Items of other types, except reasoning and searches, are sent unchanged.
"""

_REPLY_KEYS: Final = frozenset({"id", "status", "created_by", "details"})
"""Other keys that such items have in replies. Dropping them is no loss."""

_FOREIGN_SEARCH_KEYS: Final = frozenset({"details", "encrypted_content", "error"})
_FOREIGN_SOURCE_KEYS: Final = frozenset({"title", "page_age"})
"""The keys that searches of other upstreams and their sources have, and this API refuses."""

OPTIONAL_ID_TYPES: Final = frozenset({*_REPLAYED_KEYS, "reasoning"})
"""Types of items that are complete without their ids: an id only names the item."""

_SEALED_REASONING_KEYS = ("type", "id", "summary", "encrypted_content")
_OPEN_REASONING_KEYS = ("type", "id", "summary", "content")
"""The keys of reasoning items that are sent back. The id is among them, because the API requires it."""


def lower(turn: Turn, profile: Profile) -> LoweredRequest:
    """Returns the body for `POST /responses`, with its losses.

    `store` is always false, whatever the client sent, because only the gateway stores responses. Raises
    Unrepresentable, naming the parameter, for what the API cannot represent.
    """
    losses: list[Loss] = []
    instructions, items = turn.instructions, turn.items
    if profile.system_messages == "merge_all":
        instructions, items = merge_system_items(instructions, items, losses)
    body: Json = {
        "model": turn.model,
        "input": list(_lowered_items(items, profile, losses)),
        "store": False,
        "stream": turn.stream,
    }
    if instructions is not None:
        body["instructions"] = instructions
    body |= _tool_params(turn, losses)
    body |= _sampling_params(turn, profile, losses)
    if turn.max_output_tokens is not None:
        body["max_output_tokens"] = max(turn.max_output_tokens, _MIN_OUTPUT_TOKENS)
        if turn.max_output_tokens < _MIN_OUTPUT_TOKENS:
            losses.append(Loss("max_output_tokens", f"raised to {_MIN_OUTPUT_TOKENS}"))
    if text := _without_nulls(format=turn.text_format, verbosity=turn.verbosity):
        body["text"] = text
    body |= _reasoning_params(turn, profile, losses)
    for key, value in turn.extra.items():
        if key in profile.extra_params:
            body[key] = value
        else:
            losses.append(Loss(key, "dropped"))
    losses += find_unknown_key_losses(turn.unknown_keys, body)
    return LoweredRequest(body, losses)


def _lowered_items(items: Sequence[Item], profile: Profile, losses: list[Loss]) -> Iterator[Item]:
    for index, item in enumerate(items):
        kind = item["type"]
        if kind == "reasoning":
            item = to_replayed_reasoning(item, index)
        keys = _reasoning_keys(item, profile) if kind == "reasoning" else _REPLAYED_KEYS.get(kind)
        # The upstream takes no reasoning back. A mere signature holds no thought, so that nothing is lost with it.
        if keys == ():
            if not is_signature_only(item):
                losses.append(Loss(f"input[{index}]", "reasoning dropped"))
            continue
        if kind == SEARCH_ITEM:
            item = _lower_search(item)
        lowered = item if keys is None else {key: item[key] for key in keys if item.get(key) is not None}
        if kind in OPTIONAL_ID_TYPES:
            lowered = _with_replayed_id(lowered, item, profile)
        if item.get("status") in UNSUCCESSFUL_STATUSES and kind == "function_call_output":
            lowered = {**lowered, "status": "incomplete"}
        elif kind == "custom_tool_call_output":
            losses += find_output_losses(item, index)
        if kind == "message":
            lowered["content"] = [
                _lower_part(part, f"input[{index}].content[{place}]") for place, part in enumerate(item["content"])
            ]
        yield lowered


def _lower_search(item: Item) -> Item:
    """Returns a search without the keys that other upstreams give it; the same object if it has none."""
    sources = mapping_or_empty(item.get("action")).get("sources")
    entries = [mapping_or_empty(source) for source in sources] if isinstance(sources, list) else []
    lowered = item
    if not _FOREIGN_SEARCH_KEYS.isdisjoint(item):
        lowered = {key: value for key, value in item.items() if key not in _FOREIGN_SEARCH_KEYS}
    if not all(map(_FOREIGN_SOURCE_KEYS.isdisjoint, entries)):
        known = [{key: entry[key] for key in entry if key not in _FOREIGN_SOURCE_KEYS} for entry in entries]
        lowered = {**lowered, "action": {**item["action"], "sources": known}}
    return lowered


def _reasoning_keys(item: Item, profile: Profile) -> tuple[str, ...]:
    """Returns the keys to send back, none if the upstream would not read the item.

    An upstream that encrypts its reasoning accepts no other.
    """
    if item.get("encrypted_content"):
        return _SEALED_REASONING_KEYS
    return _OPEN_REASONING_KEYS if item.get("content") and profile.replay_reasoning != "none" else ()


def to_replayed_reasoning(item: Item, index: int) -> Item:
    """Returns a reasoning item with its text as its content, and with the id and the summary that the API requires.

    Some clients leave the id out when they send an item back: `index`, its position in the input, then makes one. An
    item with `encrypted_content` is returned unchanged.
    """
    if item.get("encrypted_content"):
        return item
    return {"id": f"rs_{index}", "summary": [], **with_readable_content(item)}


def _with_replayed_id(lowered: Item, item: Item, profile: Profile) -> Item:
    if profile.replay_ids == "drop":
        return {key: value for key, value in lowered.items() if key != "id"}
    return {**lowered, "id": item["id"]} if profile.replay_ids == "keep" and item.get("id") else lowered


def lower_items(items: Sequence[Item], profile: Profile) -> tuple[list[Item], list[Loss]]:
    """Returns items of earlier turns in the form that an upstream without a store accepts, and what that drops."""
    losses: list[Loss] = []
    lowered = list(_lowered_items(items, profile, losses))
    lost = {
        f"input.{key:.50}": None
        for item in items
        if (sent_keys := _REPLAYED_KEYS.get(item["type"])) is not None
        for key, value in item.items()
        if value and key not in sent_keys and key not in _REPLY_KEYS
    }
    return lowered, [*losses, *(Loss(path, "dropped") for path in lost)]


def _lower_part(part: Json, param: str) -> Json:
    match part["type"]:
        case "output_text":
            # The API looks files up by their ids. An empty id is of a file that was sent inline, so it knows none.
            annotations = [
                annotation for annotation in part.get("annotations") or () if annotation.get("file_id") != ""
            ]
            return {"type": "output_text", "text": part["text"], "annotations": annotations}
        case "input_image" | "input_file" as kind:
            key = "image_url" if kind == "input_image" else "file_url"
            if kind == "input_image" and part.get(key):
                require_address(part[key], f"{param}.{key}")
            refuse_google_file(part.get(key) or "", f"{param}.{key}")
            return part
        case _:
            return part


def _tool_params(turn: Turn, losses: list[Loss]) -> Json:
    if not turn.tools:
        require_no_choice(turn.tool_choice)
        return {}
    limits = [tool["max_uses"] for tool in turn.tools if tool.get("max_uses")]
    tools = [_lower_tool(tool) for tool in turn.tools]
    if limits and any(tool["type"] != "function" and not is_search_tool(tool) for tool in tools):
        losses.append(Loss("tools.max_uses", "dropped"))  # the API has one limit for all tools that it runs
        limits = []
    return _without_nulls(
        tools=tools,
        tool_choice=turn.tool_choice,
        parallel_tool_calls=turn.parallel_tool_calls,
        max_tool_calls=min(limits, default=None),
    )


def _lower_tool(tool: Json) -> Json:
    if tool["type"] == "function":
        # Chat tools without parameters may omit the key. The Responses API requires it.
        return {**tool, "parameters": complete_parameters(tool.get("parameters"))}
    return {key: value for key, value in tool.items() if key != "max_uses"} if "max_uses" in tool else tool


def _sampling_params(turn: Turn, profile: Profile, losses: list[Loss]) -> Json:
    sampling = turn.sampling
    if (sampling.get("n") or 1) > 1:
        raise Unrepresentable("the Responses API gives one choice per request: send n requests instead", param="n")
    body = {key: sampling[key] for key in _COPIED_PARAMS if key in sampling}
    for key in (*_DROPPED_PARAMS, *_REFUSED_PARAMS):
        if not sampling.get(key):
            continue
        if key in profile.extra_params:
            body[key] = sampling[key]
        elif key in _REFUSED_PARAMS:
            raise Unrepresentable(f"the Responses API has no {_REFUSED_PARAMS[key]}: leave out {key!r}", param=key)
        else:
            losses.append(Loss(key, "dropped"))
    if sampling.get("store"):
        losses.append(Loss("store", "dropped"))
    if sampling.get("logprobs"):
        body |= _without_nulls(top_logprobs=sampling.get("top_logprobs"))
    includes = [
        (_LOGPROBS, sampling.get("logprobs")),
        (_SEALED_REASONING, turn.sealed_reasoning),
        (_SEARCH_SOURCES, turn.search_sources and any(map(is_search_tool, turn.tools))),
    ]
    return body | _without_nulls(include=[name for name, is_included in includes if is_included] or None)


def _reasoning_params(turn: Turn, profile: Profile, losses: list[Loss]) -> Json:
    body: Json = {}
    reasoning = turn.reasoning or {}
    if profile.thinking_switch != "chat_template_kwargs":
        reasoning = with_effort_for_budget(reasoning, turn.thinking, losses)
    if options := _without_nulls(effort=reasoning.get("effort"), summary=reasoning.get("summary")):
        body["reasoning"] = options
    if reasoning.get("max_tokens") is not None:
        losses.append(Loss("reasoning.max_tokens", "dropped"))
    if turn.thinking is not None and profile.thinking_switch == "chat_template_kwargs":
        body["chat_template_kwargs"] = {"enable_thinking": turn.thinking}
    else:
        losses += find_thinking_losses(turn.thinking, reasoning.get("effort"))
    return body


def _without_nulls(**values: Any) -> Json:
    return {key: value for key, value in values.items() if value is not None}
