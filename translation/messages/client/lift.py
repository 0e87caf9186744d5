"""Lifts a request of the Messages API to a `Turn`. Expects a body that `schema.validate` accepted."""

from collections.abc import Mapping
from typing import Any, Final

from translation.errors import InvalidRequest, Unrepresentable
from translation.lowering.closed_schemas import close_objects
from translation.messages.client.mcp_servers import lift_mcp_servers, list_toolset_losses
from translation.messages.client.messages_history import lift_history
from translation.messages.client.relayed_features import find_features
from translation.messages.client.tools import lift_tool_choice, lift_tools
from translation.messages.schema.request import REQUEST_FIELDS, check_known, find_unknown_in_request
from translation.representation.json_types import Json
from translation.representation.loss import Loss, UnknownKey
from translation.representation.turn import Turn
from translation.request_facts import RequestFacts, StateFacts, ToolFacts
from translation.tools.credentials import list_credentials
from translation.tools.searches import WEB_SEARCH, is_search_tool

THREAD_UNSUPPORTED: Final = "thread_unsupported_request"
"""The code by which the API's clients know that they have to send the whole conversation."""

_SERVICE_TIERS: Final = {"standard_only": "default"}

_SHARED_PARAMS: Final = (
    "temperature",
    "top_p",
    "frequency_penalty",
    "presence_penalty",
    "seed",
    "prompt_cache_key",
    "prompt_cache_retention",
)
"""Parameters that are sent unchanged. All but the first two are extensions: the defaults of a model may have them."""

_REFUSED_PARAMS: Final = {
    "compaction": "this model's upstream does not summarize conversations",
    "container": "this model's upstream has no containers and no skills",
}
"""Parameter that only Anthropic's servers can follow -> why it is refused."""

_MARK_KEYS: Final = ("type", "ttl")
"""The keys of `cache_control` that the API has without a beta."""

_MAX_USER_CHARS: Final = 64
"""The longest name of a user that OpenAI accepts. Claude Code sends a JSON text with ids of device and session."""


def lift(body: Json, *, relayed: bool = False, model: str | None = None) -> Turn:
    """Returns the turn for a valid body (see `schema.validate`). What a turn cannot represent is in its `losses`.

    The turn has no MCP servers: the facts have them. `model` replaces the model that the body names. `relayed` says
    that the body itself is forwarded and the turn only serves to check it. Raises InvalidRequest for a thread. Unless
    `relayed`, raises Unrepresentable for a block, a tool or a parameter that no other API has.
    """
    params = {key: value for key, value in body.items() if value is not None}
    if "thread" in params:
        # A relay refuses them too: its upstream has one key for all clients, so any could continue any thread.
        raise InvalidRequest(
            "Threads are not kept here: send the whole conversation, without 'thread'.",
            param="thread",
            code=THREAD_UNSUPPORTED,
        )
    losses: list[Loss] = []
    if not relayed:
        check_known(params)
        _refuse_own_params(params)
        losses += [Loss(path, "dropped") for path in find_unknown_in_request(params)]
    thinking, reasoning = _lift_thinking(params, losses)
    tools = lift_tools(params.get("tools") or (), params["messages"], losses, relayed=relayed)
    if not relayed:
        losses += list_toolset_losses(params.get("tools") or ())
    tool_choice, parallel = lift_tool_choice(params.get("tool_choice"), tools)
    return Turn(
        model=body["model"] if model is None else model,
        instructions=_lift_system(params.get("system")),
        items=[] if relayed else lift_history(params["messages"], losses),
        tools=tools,
        tool_choice=tool_choice,
        parallel_tool_calls=parallel,
        sampling=_lift_sampling(params, losses),
        max_output_tokens=params.get("max_tokens"),
        text_format=_lift_format(params),
        reasoning=reasoning,
        thinking=thinking,
        thinks_by_effort=thinking is not None or reasoning is None,
        betas=tuple(params.get("anthropic_beta") or ()),
        cache_control=None if relayed else _find_cache_control(params),
        stream=params.get("stream", False),
        extra=_lift_extra(params, losses),
        losses=() if relayed else tuple(dict.fromkeys(losses)),
        unknown_keys=() if relayed else _find_unknown_values(params),
    )


def _find_unknown_values(params: Mapping[str, Any]) -> tuple[UnknownKey, ...]:
    """Returns the kind of thinking that only some models of this API have. For others it becomes adaptive thinking."""
    thinking = params.get("thinking") or {}
    return (UnknownKey("thinking.type", "type", thinking),) if thinking.get("type") == "between_tools" else ()


def _refuse_own_params(params: Mapping[str, Any]) -> None:
    """Raises Unrepresentable for a parameter that only Anthropic's servers can follow, and that changes the reply."""
    for name, reason in _REFUSED_PARAMS.items():
        if params.get(name):
            raise Unrepresentable(f"{reason}: leave out {name!r}", param=name)


def _lift_system(system: Any) -> str | None:
    if system is None or isinstance(system, str):
        return system or None
    return "\n\n".join(block["text"] for block in system) or None


def _lift_thinking(params: Mapping[str, Any], losses: list[Loss]) -> tuple[bool | None, Json | None]:
    """Returns (thinking, reasoning) from `thinking` and `output_config.effort`.

    An effort without thinking shortens the answer of Anthropic's models. Elsewhere it would turn thinking on.
    """
    requested = params.get("thinking") or {}
    kind = requested.get("type")
    effort = (params.get("output_config") or {}).get("effort")
    if kind == "disabled":
        if effort is not None:
            losses.append(Loss("output_config.effort", "dropped"))
        return False, None
    reasoning: Json = {} if effort is None else {"effort": effort}
    if requested.get("display") == "summarized":
        # OpenAI sends no readable thinking without it. It costs nothing where thinking is readable anyway.
        reasoning["summary"] = "auto"
    if kind == "enabled":
        reasoning["max_tokens"] = requested["budget_tokens"]
    return (True if kind else None), reasoning or None


def _lift_sampling(params: Mapping[str, Any], losses: list[Loss]) -> Json:
    sampling = {key: params[key] for key in _SHARED_PARAMS if key in params}
    if params.get("stop_sequences"):
        sampling["stop"] = params["stop_sequences"]
    if "service_tier" in params:
        tier = params["service_tier"]
        sampling["service_tier"] = _SERVICE_TIERS.get(tier, tier)
    user = (params.get("metadata") or {}).get("user_id")
    if user and len(user) <= _MAX_USER_CHARS:
        sampling["user"] = user
    elif user:
        losses.append(Loss("metadata.user_id", "dropped"))
    return sampling


def _lift_format(params: Mapping[str, Any]) -> Json | None:
    text_format = (params.get("output_config") or {}).get("format") or params.get("output_format")
    if text_format is None:
        return None
    # Upstreams that refuse an open schema with `strict` follow it without.
    schema = text_format["schema"]
    closed = close_objects(schema)
    return {"type": "json_schema", "name": "output", "schema": closed or schema, "strict": closed is not None}


def _find_cache_control(params: Mapping[str, Any]) -> Json | None:
    """Returns the first `cache_control` of the request, a tool, the system prompt or the newest message, else None.

    Keys that need a beta, such as the `scope` of Claude Code, are left out, as the client's betas are.
    """
    system, content = params.get("system"), params["messages"][-1].get("content") if params["messages"] else None
    places = [params, *(params.get("tools") or ())]
    for blocks in (system, content):
        places += blocks if isinstance(blocks, list) else []
    for place in places:
        mark = place.get("cache_control")
        if isinstance(mark, dict) and mark.get("type") == "ephemeral":
            return {key: value for key, value in mark.items() if key in _MARK_KEYS and value is not None}
    return None


def _lift_extra(params: Mapping[str, Any], losses: list[Loss]) -> Json:
    extra = {key: value for key, value in params.items() if key not in REQUEST_FIELDS}
    if "top_k" in params:
        extra["top_k"] = params["top_k"]
    if params.get("context_management"):
        losses.append(Loss("context_management", "dropped"))
    return extra


def lift_count(body: Json, *, relayed: bool = False, model: str | None = None) -> Turn:
    """Returns the turn for a request to count tokens, as `lift` does for a message.

    `compaction` does not change the count.
    """
    return lift({**body, "compaction": None}, relayed=relayed, model=model)


_NO_STATE = StateFacts()
_NO_TOOLS = ToolFacts()


def read_facts(body: Json) -> RequestFacts:
    """Returns the facts of a validated body. Its MCP servers and web searches are hosted tools."""
    thread = body.get("thread")
    return RequestFacts(
        streams=bool(body.get("stream")),
        state=_NO_STATE if thread is None else StateFacts(thread=thread),
        tools=_read_tools(body) if body.get("tools") or body.get("mcp_servers") else _NO_TOOLS,
        features=find_features(body),
        starts_thinking=(body.get("thinking") or {}).get("type") not in (None, "disabled"),
        has_extensions=bool(body.get("extensions")),
        lists_models=bool(body.get("models")),
        cache_key=body.get("prompt_cache_key"),
    )


def _read_tools(body: Json) -> ToolFacts:
    searches = [{"type": WEB_SEARCH} for tool in body.get("tools") or () if is_search_tool(tool)]
    servers = tuple(lift_mcp_servers(body))
    return ToolFacts(hosted=(*servers, *searches), servers=servers, credentials=tuple(list_credentials(body)))
