"""Builds vLLM's structured outputs from an output constraint."""

import json
from types import ModuleType
from typing import Any, Final

from providers.engines.base import OutputConstraint
from translation.representation.json_types import Json

_MAX_BLANKS: Final = 32
"""The most spaces and line breaks in a row. JSON allows any number, and a model that tends to write something else
fills its window with them. This is enough for indentation."""

_TAG_BACKENDS: Final = frozenset({"auto", "xgrammar"})
"""Values of vLLM's `structured_outputs_config.backend` that support the structural tags used here."""


def build_structured_outputs(vllm: ModuleType, constraint: OutputConstraint | None, backend: str) -> Any:
    """Returns vLLM's StructuredOutputsParams, or None without a constraint."""
    if constraint is None:
        return None
    if constraint.regex is not None:
        return vllm.StructuredOutputsParams(regex=constraint.regex)
    if (grammar := constraint.grammar or constraint.lark) is not None:
        return vllm.StructuredOutputsParams(grammar=grammar)
    if constraint.choice is not None:
        return vllm.StructuredOutputsParams(choice=list(constraint.choice))
    schema = constraint.json_schema if constraint.json_schema is not None else {"type": "object"}
    if backend in _TAG_BACKENDS and not vllm.has_xgrammar_unsupported_json_features(schema):
        tag = json.dumps({"type": "structural_tag", "format": _tag_format(schema, constraint)})
        if vllm.reads_tag(tag):
            return vllm.StructuredOutputsParams(structural_tag=tag)
    # vLLM chooses another backend that supports the schema, or reports what is wrong with it.
    return vllm.StructuredOutputsParams(json=schema)


def _tag_format(schema: Json, constraint: OutputConstraint) -> Json:
    form: Json = {"type": "json_schema", "json_schema": schema, "max_whitespace_cnt": _MAX_BLANKS}
    if constraint.suffix:
        form = {"type": "sequence", "elements": [form, {"type": "const_string", "value": constraint.suffix}]}
    return form
