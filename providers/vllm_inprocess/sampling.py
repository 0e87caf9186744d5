"""Builds vLLM's `SamplingParams` from a generation request, with the structured outputs of its constraint."""

import json
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

from providers.engines.base import GenerationRequest, OutputConstraint
from providers.vllm_inprocess.failures import build_rejection
from translation.representation.json_types import Json

_SAME_NAME: Final = frozenset(
    {
        "allowed_token_ids",
        "bad_words",
        "frequency_penalty",
        "ignore_eos",
        "min_p",
        "min_tokens",
        "presence_penalty",
        "repetition_penalty",
        "seed",
        "spaces_between_special_tokens",
        "stop_token_ids",
        "temperature",
        "thinking_token_budget",
        "top_k",
        "top_p",
    }
)
"""Parameters that have the same name in vLLM."""

SUPPORTED_PARAMETERS: Final = _SAME_NAME | {"cache_salt", "logit_bias", "priority", "vllm_xargs"}
"""Parameters that a request may set. `skip_special_tokens` and `include_stop_str_in_output` are not among them, because
the text that they add is not part of the model's answer."""

_MAX_LOGIT_BIAS: Final = 100.0

_MAX_BLANKS: Final = 32
"""The most spaces and line breaks in a row. JSON allows any number, and a model that tends to write something else
fills its window with them. This is enough for indentation."""

_TAG_BACKENDS: Final = frozenset({"auto", "xgrammar"})
"""Values of vLLM's `structured_outputs_config.backend` that support the structural tags used here."""


def build_sampling_params(
    vllm: ModuleType,
    request: GenerationRequest,
    defaults: Mapping[str, Any],
    *,
    room: int,
    keep_special_tokens: bool,
    backend: str,
) -> Any:
    """Returns the parameters of one generation.

    `defaults` are the parameters of the model's generation config. `room` is the number of tokens that still fit into
    the context. With `keep_special_tokens` special tokens are part of the text, for a model whose tags are special
    tokens. `backend` is vLLM's backend of structured outputs. Raises UpstreamRejected if vLLM refuses a value.
    """
    requested = {name: value for name, value in request.sampling.items() if value is not None}
    values = dict(defaults) | {name: requested[name] for name in requested.keys() & _SAME_NAME}
    try:
        return vllm.SamplingParams(
            **values,
            max_tokens=min(request.max_tokens, room),
            stop=list(request.stop) or None,
            logprobs=request.top_logprobs,
            logit_bias=_build_logit_bias(requested.get("logit_bias")),
            extra_args=requested.get("vllm_xargs"),
            structured_outputs=_build_structured_outputs(vllm, request.constraint, backend),
            output_kind=vllm.RequestOutputKind.DELTA,
            skip_special_tokens=not keep_special_tokens,
        )
    except (vllm.VLLMClientError, TypeError, ValueError) as refused:
        raise build_rejection(refused) from refused


def _build_structured_outputs(vllm: ModuleType, constraint: OutputConstraint | None, backend: str) -> Any:
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
        tag = json.dumps({"type": "structural_tag", "format": _build_tag_format(schema, constraint)})
        if vllm.reads_tag(tag):
            return vllm.StructuredOutputsParams(structural_tag=tag)
    # vLLM chooses another backend that supports the schema, or reports what is wrong with it.
    return vllm.StructuredOutputsParams(json=schema)


def _build_tag_format(schema: Json, constraint: OutputConstraint) -> Json:
    form: Json = {"type": "json_schema", "json_schema": schema, "max_whitespace_cnt": _MAX_BLANKS}
    if constraint.suffix:
        form = {"type": "sequence", "elements": [form, {"type": "const_string", "value": constraint.suffix}]}
    return form


def _build_logit_bias(logit_bias: Mapping[str, Any] | None) -> dict[int, float] | None:
    """Returns the bias with token ids as numbers, because keys are strings in JSON. Values are limited as by vLLM's own
    server, which follows OpenAI."""
    if not logit_bias:
        return None
    return {int(token): max(-_MAX_LOGIT_BIAS, min(_MAX_LOGIT_BIAS, float(bias))) for token, bias in logit_bias.items()}
