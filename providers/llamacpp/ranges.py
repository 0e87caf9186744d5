"""Numbers that llama.cpp takes without a word, and hangs, ends or talks nonsense with."""

import math
from collections.abc import Mapping
from typing import Final, NamedTuple


class Range(NamedTuple):
    """What a number may be."""

    least: float
    most: float = math.inf
    besides: float | None = None
    """A number outside, with a meaning of its own."""

    def complaint(self, value: float) -> str | None:
        """What to write instead of a value that is none of these."""
        if self.least <= value <= self.most or value == self.besides:
            return None
        upper = f" to {self.most:g}" if self.most < math.inf else " on"
        besides = f", or {self.besides:g}" if self.besides is not None else ""
        return f"write a number from {self.least:g}{upper}{besides}"


_COUNT: Final = Range(0)
_SOME: Final = Range(1)
_SHARE: Final = Range(0, 1)
_THREADS: Final = Range(1, 512, besides=-1)
_AS_IT_LIKES: Final = Range(0, besides=-1)

RANGES: Final[Mapping[str, Range]] = {
    "cache_ram_mib": _AS_IT_LIKES,
    "checkpoint_min_step": _COUNT,
    "cpuparams.n_threads": _THREADS,
    "cpuparams.poll": Range(0, 100),
    "cpuparams_batch.n_threads": _THREADS,
    "cpuparams_batch.poll": Range(0, 100),
    "fit_params_min_ctx": _COUNT,
    "grp_attn_n": _SOME,
    "grp_attn_w": _SOME,
    "image_max_tokens": Range(1, besides=-1),
    "image_min_tokens": Range(1, besides=-1),
    "main_gpu": _COUNT,
    "n_batch": _SOME,
    "n_cache_reuse": _COUNT,
    # A context of a few tokens is not enough for the run that warms it up, which never ends then.
    "n_ctx": Range(64, besides=0),
    "n_ctx_checkpoints": _COUNT,
    "n_gpu_layers": Range(-2),
    "n_keep": _AS_IT_LIKES,
    "n_parallel": Range(1, 256, besides=-1),
    "n_predict": Range(0, besides=-1),
    "n_threads_http": Range(1, besides=-1),
    "n_ubatch": _COUNT,
    "rope_freq_base": _COUNT,
    "rope_freq_scale": _COUNT,
    "sampling.min_p": _SHARE,
    "sampling.n_probs": _COUNT,
    "sampling.top_p": _SHARE,
    "sampling.typ_p": _SHARE,
    "sleep_idle_seconds": Range(1, besides=-1),
    "slot_prompt_similarity": _SHARE,
    "sse_ping_interval": Range(1, besides=-1),
    "timeout_read": _SOME,
    "timeout_write": _SOME,
    "yarn_orig_ctx": _COUNT,
}
"""Parameter with its path -> what it may be. A number that is not here is llama.cpp's to judge."""
