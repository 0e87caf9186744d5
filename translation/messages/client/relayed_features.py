"""Finds what a request has that some servers with the Messages API leave out, so that it is not relayed to them.

What such servers know is texts, images, functions, their calls and their results. vLLM has no field for thinking,
llama.cpp and Ollama drop blocks of other types, all of them drop the error of a result, and each of them drops keys of
`output_config`, of `tool_choice`, or for the management of the context. Sources, of 2026:
vllm/entrypoints/anthropic/protocol.py of vLLM, `server_chat_convert_anthropic_to_oai` of llama.cpp's server, and
anthropic/anthropic.go of Ollama.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from translation.messages.schema.request import ROLES
from translation.representation.json_types import Json, mapping_or_empty
from translation.request_facts import RelayedFeature

_PARTIAL_CHOICES: Final = ("none", "tool")
"""The types of `tool_choice` that not every server knows."""

_BLOCK_FEATURES: Final[Mapping[str, RelayedFeature]] = {"document": "documents", "search_result": "search_results"}

_COMMON_BLOCKS: Final = frozenset({"image", "redacted_thinking", "text", "thinking", "tool_result", "tool_use"})
"""The types of blocks that all servers know. What a redacted one has is of use to its own upstream only."""

_RESULT_BLOCKS: Final = frozenset({"image", "text"})

_CONTEXT_KEYS: Final = ("compaction", "container", "context_management")

_SYSTEM_KEYS: Final = ("clear_at", "output_config")
"""Keys of system messages among the others that no such server knows."""


def find_features(body: Json) -> frozenset[RelayedFeature]:
    """Returns the features of a validated body."""
    return frozenset((*_list_param_features(body), *_list_block_features(body["messages"])))


def _list_param_features(body: Json) -> Iterator[RelayedFeature]:
    output, choice = mapping_or_empty(body.get("output_config")), mapping_or_empty(body.get("tool_choice"))
    if body.get("thinking") or output.get("effort"):
        yield "thinking"
    if output.get("format") or body.get("output_format"):
        yield "text_format"
    if choice.get("type") in _PARTIAL_CHOICES or choice.get("disable_parallel_tool_use"):
        yield "tool_choice"
    if body.get("mcp_servers") or any(tool.get("type") not in (None, "custom") for tool in body.get("tools") or ()):
        yield "typed_tools"
    if any(body.get(key) for key in _CONTEXT_KEYS):
        yield "context_keys"


def _list_block_features(messages: list[Json]) -> Iterator[RelayedFeature]:
    for message in messages:
        if message["role"] in ROLES:
            yield from _list_content_features(message.get("content"))
            if message["role"] == "system" and any(message.get(key) for key in _SYSTEM_KEYS):
                yield "context_keys"


def _list_content_features(content: Any) -> Iterator[RelayedFeature]:
    for block in content if isinstance(content, list) else ():
        kind = block["type"]
        if kind not in _COMMON_BLOCKS:
            yield _BLOCK_FEATURES.get(kind, "other_blocks")
        elif kind == "tool_result":
            yield from _list_result_features(block.get("content"))
            if block.get("is_error"):
                yield "failed_results"


def _list_result_features(content: Any) -> Iterator[RelayedFeature]:
    for block in content if isinstance(content, list) else ():
        if block["type"] not in _RESULT_BLOCKS:
            yield _BLOCK_FEATURES.get(block["type"], "other_blocks")
