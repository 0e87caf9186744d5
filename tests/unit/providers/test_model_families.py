"""providers/model_families.py: the family of a model is found by its name."""

import pytest

from providers.model_families import MODEL_FAMILIES, ModelFamily, find_family
from translation.representation.profile import TOOL_PARSERS

NAMES = {
    "openai/gpt-oss-20b": "gpt_oss",
    "gpt-oss:120b": "gpt_oss",
    "deepseek-ai/DeepSeek-R1-0528": "deepseek_r1",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B": "deepseek_r1",
    "unsloth/DeepSeek-R1-Distill-Llama-70B-GGUF": "deepseek_r1",
    "deepseek-ai/DeepSeek-V3-0324": "deepseek_v3",
    "deepseek-ai/DeepSeek-V3.1-Terminus": "deepseek_v3_1",
    "deepseek-ai/DeepSeek-V3.2-Exp": "deepseek_v3_2",
    "NousResearch/Hermes-3-Llama-3.1-8B": "hermes",
    "NousResearch/Hermes-2-Pro-Mistral-7B": "hermes",
    "NousResearch/DeepHermes-3-Mistral-24B-Preview": "hermes",
    "NousResearch/Hermes-4-14B": "hermes",
    "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8": "qwen3_coder",
    "Qwen/Qwen3.5-397B-A17B": "qwen3_5",
    "Qwen/Qwen3-0.6B": "qwen3",
    "qwen3:8b": "qwen3",
    "/models/Qwen3-30B-A3B-Thinking-2507-Q4_K_M.gguf": "qwen3",
    "/models/qwen3-8b/": "qwen3",
    "Qwen/QwQ-32B": "qwen3",
    "Qwen/Qwen2.5-7B-Instruct": "qwen2",
    "moonshotai/Kimi-K2-Thinking": "kimi_k2",
    "zai-org/GLM-4.6": "glm",
    "zai-org/GLM-4.5-Air": "glm",
    "MiniMaxAI/MiniMax-M2": "minimax_m2",
    "mistralai/Magistral-Small-2506": "magistral",
    "mistralai/Mistral-Small-3.2-24B-Instruct-2506": "mistral",
    "mistralai/Devstral-Small-2507": "mistral",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": "llama4",
    "meta-llama/Llama-3.1-8B-Instruct": "llama3",
    "meta-llama/Meta-Llama-3.1-70B-Instruct": "llama3",
    "llama3.2:3b": "llama3",
    "ibm-granite/granite-4.0-h-small": "granite4",
    "ibm-granite/granite-3.3-8b-instruct": "granite3",
    "microsoft/Phi-4-mini-instruct": "phi4_mini",
    "microsoft/Phi-4-mini-reasoning": "phi4_reasoning",
    "microsoft/Phi-4-reasoning-plus": "phi4_reasoning",
    "HuggingFaceTB/SmolLM3-3B": "smollm3",
    "google/gemma-3-27b-it": "gemma",
    "mistralai/Ministral-3-8B-Reasoning-2512": "magistral",
    "acme-8b-thinking": "thinking",
    "acme/acme-reasoning-70b": "thinking",
    "deepseek-reasoner": "thinking",
    "Qwen/Qwen3.6-27B": "qwen3_5",
    "qwen3.8:27b": "qwen3_5",
    "gpt-4o": None,
    "zai-org/glm-4-9b-chat": None,
    "meta-llama/Meta-Llama-3-8B-Instruct": None,
    "qwen3/": "qwen3",
    "qwen3/other": None,
    "": None,
    "qwen3" + "x" * 100_000: None,
}


@pytest.mark.parametrize(("name", "family"), NAMES.items(), ids=[name[:60] or "empty" for name in NAMES])
def test_a_name_belongs_to_the_first_family_that_it_matches(name: str, family: str | None) -> None:
    assert find_family([name], MODEL_FAMILIES) == family


def test_the_first_name_that_belongs_to_a_family_decides() -> None:
    assert find_family(["/models/7b", "mine", "Qwen3-8B", "mistral"], MODEL_FAMILIES) == "qwen3"
    assert find_family(["Mistral-7B.gguf", "qwen3"], MODEL_FAMILIES) == "mistral"
    assert find_family([], MODEL_FAMILIES) is None


def test_every_family_with_patterns_has_a_name_among_these_tests() -> None:
    assert {name for name, family in MODEL_FAMILIES.items() if family.patterns} == set(NAMES.values()) - {None}


@pytest.mark.parametrize("family", [family for family in MODEL_FAMILIES.values() if family.text is not None])
def test_the_parsers_of_families_exist(family: ModelFamily) -> None:
    assert family.text is not None
    assert family.patterns
    assert all(pattern == pattern.lower() for pattern in family.patterns)
    assert family.text.tool_parser in ("openai", *TOOL_PARSERS)
    assert family.text.vllm_parser is None or family.text.tool_parser == "openai", "one parser is enough"
