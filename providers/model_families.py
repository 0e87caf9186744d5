"""Families of models: facts that follow from a model's name, whatever type of upstream serves it."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, NamedTuple

_MAX_NAME_CHARS: Final = 200
"""The most characters of a name that are compared with patterns. Clients choose names, and no model has a longer
one."""

OwnParsingFormat = Literal["direct_response", "think_tags"]


class RawTextFormat(NamedTuple):
    """The form in which models of a family write thinking and calls in their text. It matters only where nothing before
    the gateway parses that text."""

    parsing_format: OwnParsingFormat
    tool_parser: str = "openai"
    """The gateway's parser of the family's calls; `openai` if it has none for their format."""
    vllm_parser: str | None = None
    """vLLM's own parser of the calls, for formats that the gateway has no parser of."""


class ModelFamily(NamedTuple):
    """The facts about one family of models. `reason` says why they hold, or where they are documented."""

    reason: str
    fields: Mapping[str, Any] = {}
    """`Profile` fields, which apply to a model whose configuration names the family."""
    template: Mapping[str, Any] = {}
    """`Profile` fields that follow from the chat template of the models, which apply wherever a server renders it."""
    patterns: Sequence[str] = ()
    """Patterns of names that belong to the family. A name is compared in lower case, without the folders before it."""
    text: RawTextFormat | None = None


_GEMINI_SCHEMA_SHIMS: Final = frozenset({"no_empty_required", "no_schema_key", "signed_formats"})

_SYSTEM_FIRST: Final[Mapping[str, Any]] = {"system_messages": "merge_all"}
"""For templates that refuse a system message after others, or leave it out."""

_THINK_TAGS_HERMES: Final = RawTextFormat("think_tags", "hermes")

MODEL_FAMILIES: Final[Mapping[str, ModelFamily]] = {
    "deepseek": ModelFamily(
        "The API refuses a message with calls but without `reasoning_content`, and reads past reasoning.",
        {"replay_reasoning": "reasoning_content", "empty_reasoning": True},
    ),
    "kimi": ModelFamily(
        "Like DeepSeek's API.",
        {"replay_reasoning": "reasoning_content", "empty_reasoning": True},
    ),
    "gemini_chat": ModelFamily(
        "Gemini behind a chat API: past calls need a signature, which chat lacks, and only some schema keywords work.",
        {"call_signatures": "placeholder", "schema_shims": _GEMINI_SCHEMA_SHIMS},
    ),
    "stateless_responses": ModelFamily(
        "A Responses server without state, which refuses the ids of items.",
        {"replay_ids": "drop"},
    ),
    "gpt_oss": ModelFamily(
        "Harmony, which servers parse themselves, and the provider type `harmony` for a llama-server.",
        patterns=("*gpt-oss*",),
        template=_SYSTEM_FIRST,
        text=RawTextFormat("direct_response"),
    ),
    "deepseek_r1": ModelFamily(
        "Also the models distilled from it: they come before the families that they are distilled into.",
        patterns=("*deepseek-r1*",),
        text=RawTextFormat("think_tags", vllm_parser="deepseek_v3"),
    ),
    "deepseek_v3_2": ModelFamily(
        "Thinking depends on the chat template's argument `thinking`.",
        patterns=("*deepseek-v3.2*",),
        text=RawTextFormat("think_tags", vllm_parser="deepseek_v32"),
    ),
    "deepseek_v3_1": ModelFamily(
        "Thinking depends on the chat template's argument `thinking`.",
        patterns=("*deepseek-v3.1*",),
        text=RawTextFormat("think_tags", vllm_parser="deepseek_v31"),
    ),
    "deepseek_v3": ModelFamily(
        "It does not think.",
        patterns=("*deepseek-v3*",),
        text=RawTextFormat("direct_response", vllm_parser="deepseek_v3"),
    ),
    "hermes": ModelFamily(
        "Hermes 4 and DeepHermes think. The names of some contain that of the model they were trained from.",
        patterns=("*hermes-2-pro*", "*hermes-2-theta*", "*hermes-3*", "*hermes-4*"),
        text=_THINK_TAGS_HERMES,
    ),
    "qwen3_coder": ModelFamily(
        "Calls are XML: `<function=NAME><parameter=NAME>`.",
        patterns=("*qwen3-coder*",),
        text=RawTextFormat("direct_response", vllm_parser="qwen3_coder"),
    ),
    "qwen3_5": ModelFamily(
        "It thinks as Qwen3 does, and writes calls as Qwen3-Coder does.",
        patterns=("*qwen3.[5-9]*", "*qwen-3.[5-9]*"),
        template=_SYSTEM_FIRST,
        text=RawTextFormat("think_tags", vllm_parser="qwen3_coder"),
    ),
    "qwen3": ModelFamily(
        "The chat templates of QwQ and of the Thinking models open the think tag.",
        patterns=("*qwen3*", "*qwen-3*", "*qwq*"),
        text=_THINK_TAGS_HERMES,
    ),
    "qwen2": ModelFamily(
        "It does not think.",
        patterns=("*qwen2*", "*qwen-2*"),
        text=RawTextFormat("direct_response", "hermes"),
    ),
    "kimi_k2": ModelFamily(
        "Only the Thinking models think.",
        patterns=("*kimi-k2*",),
        text=RawTextFormat("think_tags", vllm_parser="kimi_k2"),
    ),
    "glm": ModelFamily(
        "GLM 4.5 and later. Calls are XML: `<arg_key>`, `<arg_value>`.",
        patterns=("*glm-4.[5-9]*", "*glm-5*"),
        text=RawTextFormat("think_tags", vllm_parser="glm45"),
    ),
    "minimax_m2": ModelFamily(
        "Calls are XML: `<invoke>`.",
        patterns=("*minimax-m2*",),
        text=RawTextFormat("think_tags", vllm_parser="minimax_m2"),
    ),
    "magistral": ModelFamily(
        "The first Magistral writes think tags. Later ones, and the reasoning models of Ministral, write `[THINK]`.",
        patterns=("*magistral*", "*ministral*reasoning*"),
        template=_SYSTEM_FIRST,
        text=RawTextFormat("think_tags", "mistral"),
    ),
    "mistral": ModelFamily(
        "Calls follow `[TOOL_CALLS]`.",
        patterns=("*mistral*", "*ministral*", "*mixtral*", "*devstral*", "*pixtral*", "*codestral*"),
        template=_SYSTEM_FIRST,
        text=RawTextFormat("direct_response", "mistral"),
    ),
    "llama4": ModelFamily(
        "Calls in Python syntax.",
        patterns=("*llama-4*", "*llama4*"),
        text=RawTextFormat("direct_response", "pythonic"),
    ),
    "llama3": ModelFamily(
        "Since 3.1. A call is a JSON object with `parameters`.",
        patterns=("*llama-3.[1-3]*", "*llama3.[1-3]*"),
        text=RawTextFormat("direct_response", "llama3_json"),
    ),
    "granite4": ModelFamily(
        "Granite 4.0 and 4.1. Calls are those of Hermes.",
        patterns=("*granite-4.[01]*", "*granite4.[01]*"),
        text=_THINK_TAGS_HERMES,
    ),
    "granite3": ModelFamily(
        "Calls are a list after `<|tool_call|>`. Thinking begins with a sentence instead of a tag.",
        patterns=("*granite-3*", "*granite3*"),
        text=RawTextFormat("direct_response", vllm_parser="granite"),
    ),
    "phi4_reasoning": ModelFamily(
        "It has no calls.",
        patterns=("*phi-4*reasoning*", "*phi4*reasoning*"),
        text=RawTextFormat("think_tags"),
    ),
    "phi4_mini": ModelFamily(
        "Calls are a list after `functools`.",
        patterns=("*phi-4-mini*", "*phi4-mini*"),
        text=RawTextFormat("direct_response", vllm_parser="phi4_mini_json"),
    ),
    "gemma": ModelFamily(
        "Roles must alternate after the first system message.",
        patterns=("*gemma*",),
        template=_SYSTEM_FIRST,
    ),
    "smollm3": ModelFamily(
        "Calls are those of Hermes.",
        patterns=("*smollm3*",),
        text=_THINK_TAGS_HERMES,
    ),
    "thinking": ModelFamily(
        "Names that say no more than that the model thinks.",
        patterns=("*thinking*", "*reasoning*", "*reasoner*"),
        text=_THINK_TAGS_HERMES,
    ),
}
"""Name of a family -> the facts about it. For a model's name, the first family with a matching pattern counts. The
operator's own settings override all of it."""


def find_family(names: Sequence[str], families: Mapping[str, ModelFamily]) -> str | None:
    """Returns the first of `families` that one of a model's `names` belongs to, or None. The first of the names that
    belongs to any decides."""
    for name in names:
        plain_name = name[-_MAX_NAME_CHARS:].lower().rstrip("/").rpartition("/")[2]
        for family_name, family in families.items():
            if any(fnmatchcase(plain_name, pattern) for pattern in family.patterns):
                return family_name
    return None
