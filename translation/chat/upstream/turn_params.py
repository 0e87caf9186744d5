"""The turn's names of the parameters that chat upstreams are sent."""

from collections.abc import Mapping
from typing import Final

TURN_PARAMS: Final[Mapping[str, str]] = {
    "messages": "input",
    "max_completion_tokens": "max_output_tokens",
    "max_tokens": "max_output_tokens",
    "response_format": "text.format",
    "guided_json": "text.format",
    "structured_outputs": "text.format",
    "verbosity": "text.verbosity",
    "reasoning_effort": "reasoning.effort",
    "reasoning.effort": "reasoning.effort",
    "reasoning.max_tokens": "reasoning.max_tokens",
    "chat_template_kwargs": "thinking",
    "functions": "tools",
    "function_call": "tool_choice",
    "web_search_options": "tools",
}
"""Parameter of a chat request -> the turn's. All others have the same name."""
