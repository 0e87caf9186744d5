"""What a generation asks for, as vLLM's `SamplingParams`."""

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
"""What vLLM calls the same."""

SUPPORTED_PARAMETERS: Final = _SAME_NAME | {"cache_salt", "logit_bias", "priority", "vllm_xargs"}
"""What a request may set. Without `skip_special_tokens` and `include_stop_str_in_output`: what they would put into the
text is not the model's answer."""

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
    """The parameters of one run. `defaults` are the model's own; `room` is all it may still generate.

    `whole_text`: special tokens are said too, for the model writes its tags with them. `backend` is vLLM's own, which
    guides answers. Raises UpstreamRejected.
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


def _logit_bias_of(given: Mapping[str, Any] | None) -> dict[int, float] | None:
    """JSON has no numbers for keys, and vLLM's own server bounds the values as OpenAI does."""
    if not given:
        return None
    return {int(token): max(-_MAX_LOGIT_BIAS, min(_MAX_LOGIT_BIAS, float(bias))) for token, bias in given.items()}
