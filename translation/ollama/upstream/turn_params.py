"""The turn's names of the parameters that upstreams with Ollama's API are sent."""

from collections.abc import Mapping
from typing import Final

TURN_PARAMS: Final[Mapping[str, str]] = {
    "messages": "input",
    "format": "text.format",
    "think": "thinking",
    "options.num_predict": "max_output_tokens",
    **{f"options.{name}": name for name in ("frequency_penalty", "presence_penalty", "seed", "stop")},
    **{f"options.{name}": name for name in ("temperature", "top_k", "top_p", "min_p")},
}
"""Parameter of an Ollama request -> the turn's. All others have the same name."""
