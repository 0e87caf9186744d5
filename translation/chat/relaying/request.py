"""Adapts a client's chat request body to a chat upstream. Fields that need no change are forwarded as they are."""

from collections.abc import Sequence
from typing import Final

from translation.chat.client.param_names import find_client_name
from translation.chat.client.thinking_params import THINKING_PARAMS
from translation.chat.reasoning import (
    DETAILS_FIELD,
    PLAIN_FIELD_OF_DETAILS,
    find_reasoning_text,
    find_replay_field,
    is_chat_detail,
    list_text_fields,
)
from translation.chat.relaying.call_ids import with_unique_message_call_ids
from translation.chat.relaying.request_thinking import relay_thinking
from translation.chat.upstream.lower import TURN_PARAMS, remove_refused_params
from translation.chat.upstream.lower_items import add_required_fields
from translation.chat.upstream.lower_tools import remove_format_beside_forced_call, restrict_to_chosen_tools
from translation.hygiene.outputs import truncate_output
from translation.hygiene.schema_shims import apply_schema_shims, shim_format
from translation.hygiene.volatile_lines import move_volatile_lines, remove_lines
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import SHARED_PARAMS, LoweredRequest
from translation.tools.choice import require_no_choice

_STRAY_FIELDS = ("annotations", "audio", "function_call", "tool_calls")
"""Fields of an assistant message that are dropped from a content part. Reasoning fields are moved to the message."""

_GATEWAY_PARAM: Final = "extensions"
"""The gateway's own parameter. It is not forwarded."""

_SYSTEM_ROLES = ("system", "developer")

_LIMIT_FIELDS: Final = frozenset({"max_tokens", "max_completion_tokens"})

_PLAIN_PARAMS: Final = SHARED_PARAMS | {"model", "messages", "stream", "stream_options", "stop", *_LIMIT_FIELDS}

_TOOL_PARAMS: Final = frozenset({"tools", "tool_choice", "parallel_tool_calls"})
"""Parameters that are not sent without tools."""

_PLAIN_MESSAGE_KEYS: Final = {"role", "content"}

_PLAIN_ROLES: Final = ("user", "assistant", *_SYSTEM_ROLES)


def is_plain_request(body: Json) -> bool:
    """Whether a valid body has only text messages and scalar parameters, known ones.

    Every streaming upstream accepts those in the same form, except for the output limit. Any other field, and any
    unknown one, has to be examined by `relay_body`.
    """
    if not body.keys() <= _PLAIN_PARAMS:
        return False
    for message in body["messages"]:
        if (
            message.keys() != _PLAIN_MESSAGE_KEYS
            or type(message["content"]) is not str
            or message["role"] not in _PLAIN_ROLES
        ):
            return False
    return True


def relay_body(body: Json, profile: Profile, *, model: str) -> LoweredRequest:
    """Returns the upstream request body for `profile`, with its losses. `body` itself is not changed.

    What changes: the model's name (`model`), the fields for the output limit and for thinking, the developer role, the
    place of system messages, lines in them that change or that no model needs, the field of past reasoning, call ids
    (unique), the fields required beside calls, tool outputs (truncated to their limit), tool schemas, the default of
    `parallel_tool_calls`, and `stream_options.include_usage` (on for every stream). Nulls and an empty `tools` are left
    out. If the upstream ignores names in `tool_choice`, only the tools that `tool_choice` allows are sent. Raises
    InvalidRequest if `tool_choice` names a tool that is not in `tools`, or requires a tool when there are none.
    """
    relayed = {**body, "model": model}
    if None in body.values() or _GATEWAY_PARAM in body:
        relayed = {name: value for name, value in relayed.items() if value is not None and name != _GATEWAY_PARAM}
    losses: list[Loss] = []
    unique = with_unique_message_call_ids(body["messages"])
    if profile.removed_lines:
        unique = remove_lines(unique, profile.removed_lines)
    if profile.volatile_lines:
        unique = move_volatile_lines(unique, profile.volatile_lines)
    messages = [_relay_message(message, index, profile, losses) for index, message in enumerate(unique)]
    relayed["messages"] = _merge_system_messages(messages, profile, losses)
    if not _LIMIT_FIELDS.isdisjoint(relayed):
        _rename_limit(relayed, profile)
    if profile.raw_text_field != "none" and profile.parsing_format == "direct_response":
        relayed.setdefault(profile.raw_text_field, "none")
    if not THINKING_PARAMS.isdisjoint(relayed):
        relay_thinking(relayed, profile, losses)
    if profile.refused_params:
        losses += [Loss(_name_refused(name, body), "dropped") for name in remove_refused_params(relayed, profile)]
    if profile.schema_shims and isinstance(answer_format := relayed.get("response_format"), dict):
        relayed["response_format"] = _shim_format(answer_format, profile, losses)
    if relayed.get("tools"):
        _prepare_tools(relayed, profile, losses)
    # Strict upstreams refuse parameters about tools in a request without tools.
    elif not _TOOL_PARAMS.isdisjoint(relayed):
        require_no_choice(relayed.get("tool_choice", "auto"))
        for name in _TOOL_PARAMS:
            relayed.pop(name, None)
    # The log line has the token counts too. A client that did not request them is not sent them.
    if relayed.get("stream"):
        relayed["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
    return LoweredRequest(relayed, list(dict.fromkeys(losses)) if losses else losses)


def _name_refused(name: str, body: Json) -> str:
    """Returns the client's name for a parameter of the upstream, which the gateway may have written for another one."""
    return name if body.get(name) is not None else find_client_name(TURN_PARAMS.get(name, name), body)


def _prepare_tools(relayed: Json, profile: Profile, losses: list[Loss]) -> None:
    if profile.forced_tool == "alone":
        restrict_to_chosen_tools(relayed, losses)
        remove_format_beside_forced_call(relayed, losses, format_param="response_format")
    relayed["tools"] = list(apply_schema_shims(relayed["tools"], profile.schema_shims, losses))
    if profile.parallel_tool_calls is not None:
        relayed.setdefault("parallel_tool_calls", profile.parallel_tool_calls)


def _shim_format(answer_format: Json, profile: Profile, losses: list[Loss]) -> Json:
    named = answer_format.get("json_schema")
    if not isinstance(named, dict):
        return answer_format
    param = "response_format.json_schema.schema"
    return {**answer_format, "json_schema": shim_format(named, profile.schema_shims, param, losses)}


def _rename_limit(relayed: Json, profile: Profile) -> None:
    if profile.max_tokens_field in relayed:
        return
    name = "max_tokens" if "max_tokens" in relayed else "max_completion_tokens"
    relayed[profile.max_tokens_field] = relayed.pop(name)


def _merge_system_messages(messages: list[Json], profile: Profile, losses: list[Loss]) -> list[Json]:
    """Merges the leading system messages into one, and later ones too if the upstream accepts no others."""
    if profile.system_messages == "keep":
        return messages
    leading = 0
    for message in messages:
        if message["role"] not in _SYSTEM_ROLES:
            break
        leading += 1
    if leading < 2 and profile.system_messages == "merge_leading":
        return messages
    systems, rest = messages[:leading], messages[leading:]
    if profile.system_messages == "merge_all" and (
        late := [message for message in rest if message["role"] in _SYSTEM_ROLES]
    ):
        systems, rest = systems + late, [message for message in rest if message["role"] not in _SYSTEM_ROLES]
        losses.append(Loss("messages", "system messages merged"))
    if len(systems) < 2:
        return [*systems, *rest]
    if any(message.get("name") for message in systems):
        losses.append(Loss("messages.name", "dropped"))
    return [{"role": systems[0]["role"], "content": _join_contents([message["content"] for message in systems])}, *rest]


def _join_contents(contents: list[str | list[Json]]) -> str | list[Json]:
    parts = [_as_parts(content) for content in contents]
    if any(part.keys() - {"type", "text"} for content in parts for part in content):
        return [part for content in parts for part in content]  # a string cannot carry keys such as `cache_control`
    return "\n\n".join("\n".join(part["text"] for part in content) for content in parts)


def _as_parts(content: str | list[Json]) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _relay_message(message: Json, index: int, profile: Profile, losses: list[Loss]) -> Json:
    role = message["role"]
    if role == "user" and len(message) == 2:
        return message  # it has only `role` and `content`
    if role in ("tool", "function") and message["content"] is not None:
        param = f"messages[{index}].content"
        return {**message, "content": truncate_output(message["content"], profile.max_tool_output_bytes, param, losses)}
    return add_required_fields(_place_reasoning(message, profile, losses), profile)


def _place_reasoning(message: Json, profile: Profile, losses: list[Loss]) -> Json:
    role = message.get("role")
    text_fields = list_text_fields(profile.reasoning_fields)
    reasoning_fields = (*text_fields, DETAILS_FIELD)
    if role == "assistant" and isinstance(message.get("content"), list):
        message = _remove_stray_fields(message, reasoning_fields, losses)
    if role == "developer" and profile.developer_role != "developer":
        return {**message, "role": profile.developer_role}
    if role != "assistant" or not any(name in message for name in reasoning_fields):
        return message
    relayed = {name: value for name, value in message.items() if name not in reasoning_fields}
    replay_field = find_replay_field(profile)
    text = find_reasoning_text(message, text_fields)
    listed = message.get(DETAILS_FIELD)
    details = [detail for detail in listed if is_chat_detail(detail)] if isinstance(listed, list) else []
    if replay_field == DETAILS_FIELD and details:
        relayed[DETAILS_FIELD] = details
        if isinstance(listed, list) and len(details) < len(listed):
            losses.append(Loss(f"messages.{DETAILS_FIELD}", "dropped"))
    elif replay_field in text_fields and text:
        relayed[replay_field] = text
    elif replay_field == DETAILS_FIELD and text:
        relayed[PLAIN_FIELD_OF_DETAILS] = text
    elif replay_field == "think_tags" and text:
        relayed["content"] = _prepend_think_tags(text, message.get("content"))
    elif field := next((name for name in reasoning_fields if message.get(name)), None):
        losses.append(Loss(f"messages.{field}", "dropped"))
    return relayed


def _prepend_think_tags(thought: str, content: str | list[Json] | None) -> str | list[Json]:
    tagged = f"<think>\n{thought}\n</think>\n\n"
    return [{"type": "text", "text": tagged}, *content] if isinstance(content, list) else tagged + (content or "")


def _remove_stray_fields(message: Json, reasoning_fields: Sequence[str], losses: list[Loss]) -> Json:
    """Removes the message's own fields from its content parts, and moves reasoning among them to the message.

    The Agents SDK for JavaScript sends a message back with these fields on its text part. Strict upstreams refuse them.
    """
    message_fields = {"role", *_STRAY_FIELDS, *reasoning_fields}
    stray: Json = {}
    parts = []
    for part in message["content"]:
        stray |= {name: part[name] for name in reasoning_fields if part.get(name)}
        losses += [
            Loss(f"messages.content.{name}", "dropped")
            for name in _STRAY_FIELDS
            if part.get(name) and part[name] != message.get(name)
        ]
        parts.append({name: value for name, value in part.items() if name not in message_fields})
    return {**stray, **message, "content": parts}
