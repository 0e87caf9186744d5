"""What an answer must be, in vLLM's words."""

import json
from types import ModuleType
from typing import Any, Final

from providers.engines.base import OutputConstraint
from translation.representation.json_types import Json

_MAX_BLANKS: Final = 32
"""Spaces and line breaks in a row. JSON may have any number of them, and a model that would rather write something else
writes nothing but those until its window is full; this is enough to indent with."""

_TAG_BACKENDS: Final = frozenset({"auto", "xgrammar"})
"""vLLM's `structured_outputs_config.backend`s that read the tags used here."""


def build_structured_outputs(vllm: ModuleType, guide: OutputConstraint | None, backend: str) -> Any:
    """vLLM's StructuredOutputsParams, or None where there is no guide."""
    if guide is None:
        return None
    if guide.regex is not None:
        return vllm.StructuredOutputsParams(regex=guide.regex)
    if guide.grammar is not None:
        return vllm.StructuredOutputsParams(grammar=guide.grammar)
    if guide.choice is not None:
        return vllm.StructuredOutputsParams(choice=list(guide.choice))
    schema = guide.json_schema if guide.json_schema is not None else {"type": "object"}
    if backend in _TAG_BACKENDS and not vllm.has_xgrammar_unsupported_json_features(schema):
        tag = json.dumps({"type": "structural_tag", "format": _tag_format(schema, guide)})
        if vllm.reads_tag(tag):
            return vllm.StructuredOutputsParams(structural_tag=tag)
    # vLLM looks for another guide that can, or says what is wrong with the schema.
    return vllm.StructuredOutputsParams(json=schema)


def _tag_format(schema: Json, guide: OutputConstraint) -> Json:
    form: Json = {"type": "json_schema", "json_schema": schema, "max_whitespace_cnt": _MAX_BLANKS}
    if guide.suffix:
        form = {"type": "sequence", "elements": [form, {"type": "const_string", "value": guide.suffix}]}
    return form
