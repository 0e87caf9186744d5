"""The turn's names of the parameters that Responses upstreams are sent."""

from collections.abc import Mapping
from typing import Final

TURN_PARAMS: Final[Mapping[str, str]] = {
    "text.format": "text.format",
    "text.verbosity": "text.verbosity",
    "reasoning.effort": "reasoning.effort",
    "reasoning.summary": "reasoning.summary",
}
"""Parameter of a Responses request with more than one key -> the turn's. Turns have the names of this API."""
