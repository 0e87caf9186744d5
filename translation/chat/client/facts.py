"""Reads the facts of a validated chat request."""

from collections.abc import Sequence
from typing import Final

from translation.chat.client.schema import HOSTED_TOOL_TYPES, uses_legacy_functions
from translation.representation.json_types import Json
from translation.request_facts import ContextFacts, RequestFacts, StateFacts, ToolFacts
from translation.tools.credentials import list_credentials
from translation.tools.searches import WEB_SEARCH

_STORED: Final = StateFacts(is_stored=True)
_UNSTORED: Final = StateFacts()
_NO_TOOLS: Final = ToolFacts()
_NO_CONTEXT: Final = ContextFacts()

_FACT_PARAMS: Final = frozenset(
    {
        *("tools", "functions", "extensions", "stream_options", "web_search_options"),
        *("models", "prompt_cache_key"),
    }
)
"""The parameters that facts besides those about the reply's form and its storage are read from."""

_KINDS: Final = frozenset({"function", "custom"}) | HOSTED_TOOL_TYPES
"""The kinds of tools that the gateway knows. Others are an upstream's own."""

_NO_SEARCH: Final[Sequence[Json]] = ()
_SEARCH: Final[Sequence[Json]] = ({"type": WEB_SEARCH},)


def read_facts(body: Json) -> RequestFacts:
    """Returns the facts of a validated body."""
    get = body.get
    state = _STORED if get("store") is True else _UNSTORED
    if _FACT_PARAMS.isdisjoint(body):
        # Most requests ask for nothing, and share the values that say so.
        return RequestFacts(bool(get("stream")), get("n") or 1, _NO_CONTEXT, state, _NO_TOOLS)
    stream_options = get("stream_options")
    has_extensions = bool(get("extensions"))
    return RequestFacts(
        streams=bool(get("stream")),
        choices=get("n") or 1,
        state=state,
        tools=_read_tools(body)
        if get("tools") or get("functions") or get("web_search_options") is not None
        else _NO_TOOLS,
        has_extensions=has_extensions,
        needs_translation=has_extensions,
        cache_key=get("prompt_cache_key"),
        is_obfuscated=stream_options is not None and bool(stream_options.get("include_obfuscation")),
        lists_models=bool(get("models")),
    )


def _read_tools(body: Json) -> ToolFacts:
    tools = body.get("tools") or ()
    types = {tool.get("type") for tool in tools}
    hosted = _NO_SEARCH if body.get("web_search_options") is None else _SEARCH
    if not HOSTED_TOOL_TYPES.isdisjoint(types):
        hosted = (*hosted, *(tool for tool in tools if tool.get("type") in HOSTED_TOOL_TYPES))
    return ToolFacts(
        hosted=hosted,
        kinds=_KINDS.intersection(types),
        is_single_call=uses_legacy_functions(body),
        credentials=tuple(list_credentials(body)),
    )
