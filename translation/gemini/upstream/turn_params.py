"""The turn's names of the parameters that upstreams with Gemini's API are sent."""

from collections.abc import Mapping
from typing import Final

_CONFIG_PARAMS: Final[Mapping[str, str]] = {
    "maxOutputTokens": "max_output_tokens",
    "temperature": "temperature",
    "topP": "top_p",
    "topK": "top_k",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
    "seed": "seed",
    "stopSequences": "stop",
    "responseLogprobs": "logprobs",
    "logprobs": "top_logprobs",
    "thinkingConfig": "reasoning",
    "thinkingConfig.thinkingLevel": "reasoning.effort",
    "thinkingConfig.thinkingBudget": "reasoning.max_tokens",
    "responseMimeType": "text.format",
    "responseSchema": "text.format",
    "responseJsonSchema": "text.format",
}

TURN_PARAMS: Final[Mapping[str, str]] = {
    "contents": "input",
    "systemInstruction": "instructions",
    "system_instruction": "instructions",
    "toolConfig": "tool_choice",
    **{f"generationConfig.{key}": name for key, name in _CONFIG_PARAMS.items()},
}
"""Parameter of a request of Gemini's API -> the turn's. All others have the same name."""
