"""The valid ranges of numbers that llama.cpp does not check itself. With other values it hangs, exits, or generates
nonsense."""

import math
from collections.abc import Mapping
from typing import Final, NamedTuple


class Range(NamedTuple):
    """The valid values of a number."""

    minimum: float
    maximum: float = math.inf
    special_value: float | None = None
    """A valid number outside the range, with a special meaning."""

    def find_problem(self, value: float) -> str | None:
        """Returns what to write instead of an invalid value; None for a valid one."""
        if self.minimum <= value <= self.maximum or value == self.special_value:
            return None
        upper = f" to {self.maximum:g}" if self.maximum < math.inf else " on"
        special = f", or {self.special_value:g}" if self.special_value is not None else ""
        return f"write a number from {self.minimum:g}{upper}{special}"


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
    # With a context of a few tokens, llama.cpp's warm-up run never ends.
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
"""Parameter with its path -> its valid values. llama.cpp checks the numbers that are not listed here."""
