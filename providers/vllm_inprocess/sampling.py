"""What a generation asks for, as vLLM's `SamplingParams`."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

from providers.engines.base import Generation
from providers.vllm_inprocess.failures import rejected
from providers.vllm_inprocess.structured import structured

_SAME: Final = frozenset(
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

PARAMETERS: Final = _SAME | {"cache_salt", "logit_bias", "priority", "vllm_xargs"}
"""What a request may set. Without `skip_special_tokens` and `include_stop_str_in_output`: what they would put into the
text is not the model's answer."""

_STRONGEST_BIAS: Final = 100.0


def sampling_params(
    vllm: ModuleType, asked: Generation, defaults: Mapping[str, Any], *, room: int, whole_text: bool, backend: str
) -> Any:
    """The parameters of one run. `defaults` are the model's own; `room` is all it may still generate.

    `whole_text`: special tokens are said too, for the model writes its tags with them. `backend` is vLLM's own, which
    guides answers. Raises UpstreamRejected.
    """
    given = {name: value for name, value in asked.sampling.items() if value is not None}
    values = dict(defaults) | {name: given[name] for name in given.keys() & _SAME}
    try:
        return vllm.SamplingParams(
            **values,
            max_tokens=min(asked.max_tokens, room),
            stop=list(asked.stop) or None,
            logprobs=asked.logprobs,
            logit_bias=_bias(given.get("logit_bias")),
            extra_args=given.get("vllm_xargs"),
            structured_outputs=structured(vllm, asked.guide, backend),
            output_kind=vllm.RequestOutputKind.DELTA,
            skip_special_tokens=not whole_text,
        )
    except (vllm.VLLMClientError, TypeError, ValueError) as refused:
        raise rejected(refused) from refused


def _bias(given: Mapping[str, Any] | None) -> dict[int, float] | None:
    """JSON has no numbers for keys, and vLLM's own server bounds the values as OpenAI does."""
    if not given:
        return None
    return {int(token): max(-_STRONGEST_BIAS, min(_STRONGEST_BIAS, float(bias))) for token, bias in given.items()}
