"""The names that the semantic conventions of OpenTelemetry have for the facts of a request. The tables change when the
conventions do.

The names are those of the GenAI conventions of 2026, which are in development, and of the stable ones for HTTP.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STREAM: Final = "gen_ai.request.stream"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
CONVERSATION: Final = "gen_ai.conversation.id"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_BYTES: Final = "gateway.tool.bytes"
TOOL_RESULTS: Final = "gateway.tool.results"

METHOD: Final = "http.request.method"
ROUTE: Final = "http.route"
URL_PATH: Final = "url.path"
URL: Final = "url.full"
STATUS: Final = "http.response.status_code"
RESEND_COUNT: Final = "http.request.resend_count"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"

REQUEST_ID: Final = "gateway.request_id"
KEY_NAME: Final = "gateway.key"
ATTEMPTS: Final = "gateway.attempts"
LOSS_COUNT: Final = "gateway.losses"
AFFINITY: Final = "gateway.affinity"
UPSTREAM: Final = "gateway.upstream"
RESULT: Final = "gateway.attempt.result"

CHAT_OPERATION: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"

OPERATIONS: Final[Mapping[str, str]] = {
    "embeddings": "embeddings",
    "completions": "text_completion",
    "rerank": "rerank",
    "moderations": "moderations",
    "speech": "speech",
    "transcriptions": "transcriptions",
    "translations": "translations",
    "image_generations": "image_generations",
    "image_edits": "image_edits",
    "image_variations": "image_variations",
    "tokenize": "tokenize",
    "detokenize": "detokenize",
}
"""The operations of paths that are only relayed, by their names. Those of the APIs of models are `chat`."""

PROVIDERS: Final[Mapping[str, str]] = {"gemini": "gcp.gemini"}
"""The names that the conventions have for types of providers. Every other type is its own name."""

SAMPLING: Final[Mapping[str, Sequence[Sequence[str]]]] = {
    "gen_ai.request.max_tokens": (
        ("max_output_tokens",),
        ("max_completion_tokens",),
        ("max_tokens",),
        ("generationConfig", "maxOutputTokens"),
        ("options", "num_predict"),
    ),
    "gen_ai.request.temperature": (
        ("temperature",),
        ("generationConfig", "temperature"),
        ("options", "temperature"),
    ),
    "gen_ai.request.top_p": (("top_p",), ("generationConfig", "topP"), ("options", "top_p")),
}
"""Attribute -> where the bodies of the APIs have its number. The first place counts."""


def read_sampling(body: Mapping[str, Any]) -> dict[str, float]:
    """Returns the numbers of a request that spans have, by their attributes."""
    numbers: dict[str, float] = {}
    for name, places in SAMPLING.items():
        for place in places:
            value: Any = body
            for key in place:
                value = value.get(key) if isinstance(value, Mapping) else None
            if isinstance(value, int | float) and not isinstance(value, bool):
                numbers[name] = value
                break
    return numbers
