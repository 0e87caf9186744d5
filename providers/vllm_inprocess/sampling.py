"""Builds vLLM's `SamplingParams` from a generation request."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

from providers.engines.base import GenerationRequest
from providers.vllm_inprocess.failures import rejection_of
from providers.vllm_inprocess.structured import build_structured_outputs

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


def build_sampling_params(
    vllm: ModuleType,
    request: GenerationRequest,
    defaults: Mapping[str, Any],
    *,
    room: int,
    keep_special_tokens: bool,
    backend: str,
) -> Any:
    """Returns the parameters of one run.

    `defaults` are those of the model's generation config. `room` is the number of tokens that still fit into the
    context. With `keep_special_tokens` special tokens are part of the text, for a model whose tags are special tokens.
    `backend` is vLLM's backend of structured outputs. Raises UpstreamRejected if vLLM refuses a value.
    """
    requested = {name: value for name, value in request.sampling.items() if value is not None}
    values = dict(defaults) | {name: requested[name] for name in requested.keys() & _SAME_NAME}
    try:
        return vllm.SamplingParams(
            **values,
            max_tokens=min(request.max_tokens, room),
            stop=list(request.stop) or None,
            logprobs=request.top_logprobs,
            logit_bias=_logit_bias_of(requested.get("logit_bias")),
            extra_args=requested.get("vllm_xargs"),
            structured_outputs=build_structured_outputs(vllm, request.constraint, backend),
            output_kind=vllm.RequestOutputKind.DELTA,
            skip_special_tokens=not keep_special_tokens,
        )
    except (vllm.VLLMClientError, TypeError, ValueError) as refused:
        raise rejection_of(refused) from refused


def _logit_bias_of(logit_bias: Mapping[str, Any] | None) -> dict[int, float] | None:
    """Returns the bias with token ids as numbers, because keys are strings in JSON. Values are limited as by vLLM's own
    server, which follows OpenAI."""
    if not logit_bias:
        return None
    return {int(token): max(-_MAX_LOGIT_BIAS, min(_MAX_LOGIT_BIAS, float(bias))) for token, bias in logit_bias.items()}
