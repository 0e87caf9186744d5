"""Reads the facts of a validated request of the Responses API."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from translation.representation.items import HOSTED_CALL_KINDS
from translation.representation.json_types import Json
from translation.representation.shared_tools import SharedTools
from translation.request_facts import ContextFacts, RequestFacts, StateFacts, ToolFacts
from translation.responses.compaction import find_lowest_threshold, has_compaction_trigger
from translation.responses.input_items import TOOL_HOLDERS
from translation.tools.credentials import list_credentials
from translation.tools.kinds import CLIENT_TOOL_KINDS
from translation.tools.searches import SEARCH_KINDS, WEB_SEARCH, is_search_tool

SEALED_REASONING: Final = "reasoning.encrypted_content"
"""The value of `include` that asks for reasoning in a form that the client can send back."""

_NO_CONTEXT: Final = ContextFacts()
_STORED: Final = StateFacts(is_stored=True, has_lasting_ids=True)
_UNSTORED: Final = StateFacts()
_NO_TOOLS: Final = ToolFacts()

_FACT_PARAMS: Final = frozenset(
    {
        *("background", "resumable", "previous_response_id", "conversation"),
        *("tools", "max_tool_calls", "tool_events", "elicitation"),
        *("context_management", "truncation"),
        *("reasoning", "thinking", "extensions", "include", "stream_options", "models", "prompt_cache_key", "stop"),
    }
)
"""The parameters that facts besides those about the input and its storage are read from."""

_TOOLS_ONLY: Final = frozenset({"tools"})

_KINDS: Final = frozenset(
    {*CLIENT_TOOL_KINDS, *HOSTED_CALL_KINDS.values(), *SEARCH_KINDS, "custom", "namespace", "programmatic_tool_calling"}
)
"""The kinds of tools that the gateway knows besides functions, which every upstream knows. Others are an upstream's
own."""


def read_facts(body: Json) -> RequestFacts:
    """Returns the facts of a validated body."""
    get = body.get
    input_value = get("input")
    is_stored = get("store") is not False
    asks = _FACT_PARAMS.intersection(body)
    if (not asks or (asks == _TOOLS_ONLY and isinstance(body["tools"], SharedTools))) and not (
        isinstance(input_value, list) and _has_facts(input_value)
    ):
        # Most requests ask for nothing, and share the values that say so.
        state = _STORED if is_stored else _UNSTORED
        return RequestFacts(bool(get("stream")), 1, _NO_CONTEXT, state, _NO_TOOLS, input_value)
    reasoning = get("reasoning")
    stream_options = get("stream_options")
    return RequestFacts(
        streams=bool(get("stream")),
        context=_read_context(body),
        state=_read_state(body, is_stored=is_stored),
        tools=_read_tools(body),
        input_value=input_value,
        sets_thinking=get("thinking") is not None,
        has_extensions=bool(get("extensions")),
        needs_translation=reasoning is not None and reasoning.get("max_tokens") is not None,
        adds_stop=bool(get("stop")),
        wants_summary=reasoning is not None and bool(reasoning.get("summary") or reasoning.get("generate_summary")),
        wants_sealed_reasoning=SEALED_REASONING in (get("include") or ()),
        cache_key=get("prompt_cache_key"),
        is_obfuscated=stream_options is not None and bool(stream_options.get("include_obfuscation")),
        lists_models=bool(get("models")),
    )


def _has_facts(items: Sequence[Json]) -> bool:
    """Whether an input asks for its compaction, or has items with tools."""
    return has_compaction_trigger(items) or any("tools" in item for item in items)


def _read_context(body: Json) -> ContextFacts:
    entry = find_lowest_threshold(body.get("context_management"))
    has_trigger = has_compaction_trigger(body.get("input"))
    is_truncated = body.get("truncation") == "auto"
    if entry is None:
        if not (has_trigger or is_truncated):
            return _NO_CONTEXT
        return ContextFacts(has_trigger=has_trigger, is_truncated=is_truncated)
    return ContextFacts(True, entry.get("compact_threshold"), has_trigger, is_truncated)


def _read_state(body: Json, *, is_stored: bool) -> StateFacts:
    conversation = body.get("conversation")
    return StateFacts(
        is_stored=is_stored,
        has_lasting_ids=is_stored or bool(conversation),
        in_background=bool(body.get("background")),
        is_resumable=body.get("resumable"),
        previous_id=body.get("previous_response_id"),
        conversation_id=conversation["id"] if isinstance(conversation, dict) else conversation,
    )


def _read_tools(body: Json) -> ToolFacts:
    return ToolFacts(
        hosted=() if isinstance(tools := body.get("tools") or (), SharedTools) else tools,
        max_calls=body.get("max_tool_calls"),
        kinds=frozenset(_list_kinds(body)),
        reports_events=bool(body.get("tool_events")),
        takes_input=bool(body.get("elicitation")),
        credentials=tuple(list_credentials(body)),
    )


def _list_kinds(body: Json) -> Iterator[str]:
    """Returns the kinds of the tools in a body and in the items of its input that bring tools.

    A key `tools` of another item is none of the API's, and may have any value.
    """
    tools = body.get("tools") or ()
    input_value = body.get("input")
    items = input_value if isinstance(input_value, list) else ()
    brought = (item["tools"] for item in items if item.get("type") in TOOL_HOLDERS)
    for tool in chain(() if isinstance(tools, SharedTools) else tools, *brought):
        if (kind := tool.get("type")) in _KINDS:
            yield kind
        elif is_search_tool(tool):
            yield WEB_SEARCH  # in a later version
