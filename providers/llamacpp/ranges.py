"""Numbers that llama.cpp takes without a word, and hangs, ends or talks nonsense with."""

import math
from collections.abc import Mapping
from typing import Final, NamedTuple


class Range(NamedTuple):
    """What a number may be."""

    minimum: float
    maximum: float = math.inf
    special_value: float | None = None
    """A number outside, with a meaning of its own."""

    def problem_of(self, value: float) -> str | None:
        """What to write instead of a value that is none of these."""
        if self.minimum <= value <= self.maximum or value == self.special_value:
            return None
        upper = f" to {self.maximum:g}" if self.maximum < math.inf else " on"
        besides = f", or {self.special_value:g}" if self.special_value is not None else ""
        return f"write a number from {self.minimum:g}{upper}{besides}"


_NON_NEGATIVE: Final = Range(0)
_POSITIVE: Final = Range(1)
_FRACTION: Final = Range(0, 1)
_THREADS: Final = Range(1, 512, special_value=-1)
_NON_NEGATIVE_OR_AUTO: Final = Range(0, special_value=-1)

RANGES: Final[Mapping[str, Range]] = {
    "cache_ram_mib": _NON_NEGATIVE_OR_AUTO,
    "checkpoint_min_step": _NON_NEGATIVE,
    "cpuparams.n_threads": _THREADS,
    "cpuparams.poll": Range(0, 100),
    "cpuparams_batch.n_threads": _THREADS,
    "cpuparams_batch.poll": Range(0, 100),
    "fit_params_min_ctx": _NON_NEGATIVE,
    "grp_attn_n": _POSITIVE,
    "grp_attn_w": _POSITIVE,
    "image_max_tokens": Range(1, special_value=-1),
    "image_min_tokens": Range(1, special_value=-1),
    "main_gpu": _NON_NEGATIVE,
    "n_batch": _POSITIVE,
    "n_cache_reuse": _NON_NEGATIVE,
    # A context of a few tokens is not enough for the run that warms it up, which never ends then.
    "n_ctx": Range(64, special_value=0),
    "n_ctx_checkpoints": _NON_NEGATIVE,
    "n_gpu_layers": Range(-2),
    "n_keep": _NON_NEGATIVE_OR_AUTO,
    "n_parallel": Range(1, 256, special_value=-1),
    "n_predict": Range(0, special_value=-1),
    "n_threads_http": Range(1, special_value=-1),
    "n_ubatch": _NON_NEGATIVE,
    "rope_freq_base": _NON_NEGATIVE,
    "rope_freq_scale": _NON_NEGATIVE,
    "sampling.min_p": _FRACTION,
    "sampling.n_probs": _NON_NEGATIVE,
    "sampling.top_p": _FRACTION,
    "sampling.typ_p": _FRACTION,
    "sleep_idle_seconds": Range(1, special_value=-1),
    "slot_prompt_similarity": _FRACTION,
    "sse_ping_interval": Range(1, special_value=-1),
    "timeout_read": _POSITIVE,
    "timeout_write": _POSITIVE,
    "yarn_orig_ctx": _NON_NEGATIVE,
}
"""Parameter with its path -> what it may be. A number that is not here is llama.cpp's to judge."""
