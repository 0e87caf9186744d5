"""What an answer must be, in vLLM's words."""

import json
from types import ModuleType
from typing import Any, Final

from providers.engines.base import Guide
from translation.representation.json_types import Json

_MOST_BLANKS: Final = 32
"""Spaces and line breaks in a row. JSON may have any number of them, and a model that would rather write something else
writes nothing but those until its window is full; this is enough to indent with."""

_BY_TAG: Final = frozenset({"auto", "xgrammar"})
"""vLLM's `structured_outputs_config.backend`s that read the tags used here."""


def structured(vllm: ModuleType, guide: Guide | None, backend: str) -> Any:
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
    if backend in _BY_TAG and not vllm.has_xgrammar_unsupported_json_features(schema):
        tag = json.dumps({"type": "structural_tag", "format": _form(schema, guide)})
        if vllm.reads_tag(tag):
            return vllm.StructuredOutputsParams(structural_tag=tag)
    # vLLM looks for another guide that can, or says what is wrong with the schema.
    return vllm.StructuredOutputsParams(json=schema)


def _form(schema: Json, guide: Guide) -> Json:
    form: Json = {"type": "json_schema", "json_schema": schema, "max_whitespace_cnt": _MOST_BLANKS}
    if guide.after:
        form = {"type": "sequence", "elements": [form, {"type": "const_string", "value": guide.after}]}
    return form
