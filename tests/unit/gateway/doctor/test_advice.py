"""gateway/doctor/advice.py: the advice about a failed check."""

from dataclasses import replace

import pytest

from gateway.doctor.advice import suggest_fix
from gateway.doctor.checks.subjects import Subject
from providers.base import Capabilities
from providers.config import ProviderType

SUBJECT = Subject(
    name="m",
    provider="p",
    provider_type="vllm",
    upstream_model="org/m",
    capabilities=Capabilities(streaming=True, tools=True),
    strict=False,
    unknown_model="nobody",
)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("upstream_unreachable", "base_url at providers.p"),
        ("upstream_unauthorized", "api_key at providers.p"),
        ("model_not_found", "has no model org/m"),
        ("model_not_found", "base_url at providers.p"),
    ],
)
def test_errors_without_a_capability_have_advice_by_their_code(code: str, words: str) -> None:
    assert words in suggest_fix(SUBJECT, code, ("tools",), undeclared=False)


@pytest.mark.parametrize(
    ("provider_type", "words"),
    [
        ("vllm", "Start vLLM without --no-enable-prefix-caching."),
        ("llama_server", "Start llama-server without --no-cache-prompt."),
        ("harmony", "Start llama-server without --no-cache-prompt."),
        ("vllm_inprocess", "Write engine: {enable_prefix_caching: true} at providers.p."),
        ("llamacpp", "Remove keys about the cache from engine at providers.p."),
        ("openai_compatible", "Turn the upstream's prefix cache on."),
    ],
)
def test_the_advice_about_a_cache_names_options_of_the_own_server_only(provider_type: ProviderType, words: str) -> None:
    advice = suggest_fix(replace(SUBJECT, provider_type=provider_type), "uncached_prefix", (), undeclared=False)
    assert advice.startswith(words)
    assert "volatile_lines at models.m" in advice
    assert ("vLLM" in advice, "llama-server" in advice) == ("vLLM" in words, "llama-server" in words)


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        (
            '400: "auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
            "Start vLLM with --enable-auto-tool-choice and --tool-call-parser NAME.",
        ),
        ('400 upstream_rejected: tool_choice="required" requires --tool-call-parser to be set', "Start vLLM with"),
        ("502 upstream_error: tools param requires --jinja flag", "Start llama-server with --jinja."),
        (
            "500: image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
            "Start llama-server with --mmproj",
        ),
        ("400: org/m is not a multimodal model", "write capabilities: {images: false} at models.m"),
        ("400: registry.ollama.ai/library/m does not support tools", "write capabilities: {tools: false} at models.m"),
    ],
)
@pytest.mark.parametrize("code", [None, "upstream_rejected", "upstream_error", "server_error"])
def test_a_cause_named_by_the_upstream_is_first(code: str | None, detail: str, words: str) -> None:
    advice = suggest_fix(SUBJECT, code, ("tools",), undeclared=False, detail=detail)
    assert words in advice
    assert "{{" not in advice


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("vllm", "Start vLLM with"),
        ("llama_server", "Start llama-server with --jinja"),
        ("ollama", "Write that setting"),
    ],
)
def test_unparsed_output_is_first_blamed_on_the_server(kind: ProviderType, words: str) -> None:
    advice = suggest_fix(replace(SUBJECT, provider_type=kind), "misread", ("tools",), undeclared=False)
    assert advice.startswith(words)
    assert advice.endswith("rite that setting at models.m.")


def test_a_vllm_that_calls_nothing_may_have_another_models_parser() -> None:
    advice = suggest_fix(SUBJECT, None, ("tools",), undeclared=False, detail="it answered with text")
    assert advice.startswith("Check that vLLM runs with --enable-auto-tool-choice")
    assert advice.endswith("write capabilities: {tools: false} at models.m.")
    parsed_here = replace(SUBJECT, has_text_calls=True)
    advice = suggest_fix(parsed_here, None, ("tools",), undeclared=False, detail="it answered with text")
    assert "--tool-call-parser" not in advice


def test_advice_may_be_to_withdraw_a_declared_capability() -> None:
    advice = suggest_fix(SUBJECT, "upstream_rejected", ("tools", "streaming"), undeclared=False)
    assert advice.startswith("If the model cannot do this, write capabilities: {streaming: false} at models.m")


def test_advice_may_be_to_declare_a_capability() -> None:
    subject = replace(SUBJECT, capabilities=Capabilities(tools=True))
    advice = suggest_fix(subject, None, ("tools", "streaming"), undeclared=True)
    assert advice == "If the model can do this, write capabilities: {streaming: true} at models.m."


def test_without_a_capability_the_advice_is_to_correct_the_upstream() -> None:
    assert suggest_fix(SUBJECT, None, (), undeclared=False).startswith("Fix the upstream")
