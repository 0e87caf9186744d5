"""Rows of client APIs, and what one API takes of the row of another."""

from dataclasses import fields
from typing import Any

from gateway.dialects.messages.endpoint import MESSAGES
from gateway.replies.endpoints import RequestForm

READS_CLIENT_BODY = {
    "validate",
    "keep_known",
    "normalize",
    "share_tools",
    "tools_param",
    "count_tools",
    "add_header_params",
    "merge_prompt",
}
"""Fields that read a body as its client sent it, which of an adapted API is another one."""

READS_ADAPTED_BODY = {
    "validate_merged",
    "add_defaults",
    "read_facts",
    "lift",
    "names_file",
    "own_params",
    "expects_thinking",
    "continues_prefill",
}


def test_an_adapted_api_takes_what_reads_adapted_bodies_and_nothing_else() -> None:
    """A new field of the form belongs to one of the two sets, so that it does not reach the other APIs by chance."""
    own = MESSAGES.request
    adapted = own.adapt_from(validate_nothing)
    names = {field.name for field in fields(RequestForm)}
    assert names == READS_CLIENT_BODY | READS_ADAPTED_BODY
    assert {name for name in READS_ADAPTED_BODY if getattr(adapted, name) is not getattr(own, name)} == set()
    plain = RequestForm(
        validate=validate_nothing, add_defaults=own.add_defaults, read_facts=own.read_facts, lift=own.lift
    )
    assert {name for name in READS_CLIENT_BODY if getattr(adapted, name) is not getattr(plain, name)} == set()


def validate_nothing(_body: dict[str, Any]) -> None:
    pass
