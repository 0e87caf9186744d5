"""One request to one model, in the Responses API's own words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss


class LoweredRequest(NamedTuple):
    """`body` is ready to send. `losses` are only drops that do not change what the answer means; others are raised."""

    body: Json
    losses: Sequence[Loss]


SHARED_PARAMS: Final = frozenset(
    {
        "temperature",
        "top_p",
        "presence_penalty",
        "frequency_penalty",
        "seed",
        "logit_bias",
        "service_tier",
        "metadata",
        "user",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "store",
    }
)
"""Parameters that both APIs call the same and that go into `Turn.sampling` as they are."""


@dataclass(slots=True)
class Turn:
    """What a model is asked, whichever endpoint the request came in by. A value: whoever has one does not change it.

    `items` are Responses input items in full form: every item has `type`; every message has a list of parts.
    `tools` are Responses tool objects (flat functions, custom, namespace, hosted, ...) and `tool_choice` has the
    Responses shape. `sampling` holds the scalar parameters both APIs share, under these names and only when given
    (never null): temperature, top_p, presence_penalty, frequency_penalty, seed, stop (list), logit_bias,
    logprobs (bool), top_logprobs, n, service_tier, metadata, user, safety_identifier, prompt_cache_key,
    prompt_cache_retention, store. `extra` holds every top-level key the endpoint does not know, as the client wrote
    it. `lost` is what lifting dropped.
    """

    model: str
    items: Sequence[Item]
    instructions: str | None = None
    tools: Sequence[Json] = ()
    tool_choice: str | Json | None = None
    parallel_tool_calls: bool | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    max_output_tokens: int | None = None
    text_format: Json | None = None
    """Responses `text.format`: {type: json_schema, name, schema, strict?, description?} or {type: json_object}."""
    verbosity: str | None = None
    reasoning: Json | None = None
    """Responses `reasoning`: effort, summary, max_tokens (extension)."""
    thinking: bool | None = None
    """The `thinking` extension: ask for, or forbid, reasoning."""
    sealed_reasoning: bool = False
    """Reasoning is wanted back sealed, so that a later turn can hand it on."""
    stream: bool = True
    """How the upstream is asked: as a stream of chunks, or for one whole answer."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    losses: Sequence[Loss] = ()
