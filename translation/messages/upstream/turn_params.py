"""The turn's names of the parameters that upstreams with the Messages API are sent."""

from collections.abc import Mapping
from typing import Final

TURN_PARAMS: Final[Mapping[str, str]] = {
    "messages": "input",
    "system": "instructions",
    "max_tokens": "max_output_tokens",
    "stop_sequences": "stop",
    "thinking": "reasoning",
    "thinking.budget_tokens": "reasoning.max_tokens",
    "output_config.effort": "reasoning.effort",
    "output_config.format": "text.format",
    "output_format": "text.format",
    "metadata.user_id": "user",
    "mcp_servers": "tools",
}
"""Parameter of a Messages request -> the turn's. All others have the same name."""
