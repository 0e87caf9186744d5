"""gateway/doctor/advice: what is said to do about a fail."""

from dataclasses import replace

import pytest

from gateway.doctor.advice import suggest_fix
from gateway.doctor.checks.subjects import Subject
from providers.base import Capabilities

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
def test_errors_that_no_capability_mends_are_told_by_their_code(code: str, words: str) -> None:
    assert words in suggest_fix(SUBJECT, code, ("tools",), undeclared=False)


def test_what_is_declared_can_be_taken_back() -> None:
    said = suggest_fix(SUBJECT, "upstream_rejected", ("tools", "streaming"), undeclared=False)
    assert said.startswith("If the model cannot do this, write capabilities: {streaming: false} at models.m")


def test_what_holds_without_being_declared_can_be() -> None:
    subject = replace(SUBJECT, capabilities=Capabilities(tools=True))
    said = suggest_fix(subject, None, ("tools", "streaming"), undeclared=True)
    assert said == "If the model can do this, write capabilities: {streaming: true} at models.m."


def test_where_no_capability_stands_for_it_the_upstream_is_to_be_mended() -> None:
    assert suggest_fix(SUBJECT, None, (), undeclared=False).startswith("Fix the upstream")
