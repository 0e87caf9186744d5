"""A turn: one request to one model, in the terms of the Responses API."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from translation.representation.call_pairs import CallOutputPairs
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss, UnknownKey


class LoweredRequest(NamedTuple):
    """An upstream request. `body` is ready to send.

    `losses` are only drops that do not change the meaning of the answer; any other drop is raised as an error.
    """

    body: Json
    losses: Sequence[Loss]


SERVICE_PARAMS: Final = (
    "service_tier",
    "metadata",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
)
"""Parameters of the service around a reply: its tier, its labels, its cache. Without them the reply means the same."""

SHARED_PARAMS: Final = frozenset(
    {
        "temperature",
        "top_p",
        "presence_penalty",
        "frequency_penalty",
        "seed",
        "logit_bias",
        *SERVICE_PARAMS,
        "store",
    }
)
"""Parameters that have the same name in OpenAI's two APIs. They are copied to `Turn.sampling` unchanged."""


class _NoValues(dict[str, Any]):
    """An empty mapping that all turns share. As the default of a field it has to have a hash."""

    __hash__ = object.__hash__  # type: ignore[assignment]  # a dict has none


_NO_VALUES: Final[Mapping[str, Any]] = _NoValues()


@dataclass(slots=True)
class Turn:
    """One request to one model, the same for every endpoint. Treat it as an immutable value.

    `items` are Responses input items in full form: every item has `type`; every message has a list of parts.
    `tools` are Responses tool objects (flat functions, custom, namespace, hosted, ...) and `tool_choice` has the
    Responses shape. `sampling` holds the scalar parameters that OpenAI's two APIs share, under these names and only if
    the request sets them (never null): temperature, top_p, presence_penalty, frequency_penalty, seed, stop (list),
    logit_bias, logprobs (bool), top_logprobs, n, service_tier, metadata, user, safety_identifier, prompt_cache_key,
    prompt_cache_retention, store. `extra` holds every top-level key that the endpoint does not know, as the client
    wrote it. `losses` are what lifting dropped.
    """

    model: str
    items: Sequence[Item]
    instructions: str | None = None
    tools: Sequence[Json] = ()
    tool_choice: str | Json | None = None
    parallel_tool_calls: bool | None = None
    sampling: Mapping[str, Any] = _NO_VALUES
    max_output_tokens: int | None = None
    text_format: Json | None = None
    """Responses `text.format`: {type: json_schema, name, schema, strict?, description?} or {type: json_object}."""
    verbosity: str | None = None
    reasoning: Json | None = None
    """Responses `reasoning`: effort, summary, max_tokens (extension)."""
    thinking: bool | None = None
    """The `thinking` extension: True asks for reasoning, False forbids it, None leaves it to the model."""
    thinks_by_effort: bool = True
    """Whether an effort in `reasoning` asks for thinking too. In the Messages API it is that of the answer; upstreams
    with other APIs know no other effort than that of thinking."""
    betas: Sequence[str] = ()
    """The betas that the client named for the servers of the Messages API, which other servers do not know."""
    sealed_reasoning: bool = False
    """Whether the reply must include `reasoning.encrypted_content`, which the client can send back on a later turn."""
    search_sources: bool = False
    """Whether the reply must include the sources of its web searches."""
    upstream_losses: Sequence[Loss] = ()
    """Those of `losses` that there are none of if the gateway runs the hosted tools."""
    cache_control: Json | None = None
    """The client's `cache_control` for the beginning of the prompt, for upstreams that cache only marked prompts."""
    stream: bool = True
    """Whether the upstream is asked for a stream of chunks, or for one whole response."""
    input_grammars: Mapping[str, Json] = _NO_VALUES
    """Name of a function that stands for a custom tool -> the `format` that the tool's input must have. It only has the
    function that the answer must call, and only if the upstream can hold the input to a grammar."""
    trained_names: Mapping[str, str] = _NO_VALUES
    """Name of a function that stands for a hosted tool -> the name by which the model knows it from its training, such
    as `browser.search`. Upstreams that have no form for it get the function."""
    extra: Mapping[str, Any] = _NO_VALUES
    losses: Sequence[Loss] = ()
    credentials: Sequence[str] = field(default=(), repr=False)
    """The credentials that the tools carry, which no error may quote."""
    unknown_keys: Sequence[UnknownKey] = ()
    """Keys within the items, the tools and the parameters that the endpoint does not know. The lowerings report those
    that they do not send. Endpoints whose own lifting drops them report them in `losses` instead."""
    _item_types: frozenset[str] | None = field(default=None, init=False, repr=False, compare=False)
    _call_pairs: CallOutputPairs | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def item_types(self) -> frozenset[str]:
        """The types of the items. A long history is searched for them once."""
        if self._item_types is None:
            self._item_types = frozenset([item.get("type", "") for item in self.items])
        return self._item_types

    @property
    def call_pairs(self) -> CallOutputPairs:
        """The calls among the items and their outputs. A long history is searched for them once."""
        if self._call_pairs is None:
            self._call_pairs = CallOutputPairs(self.items)
        return self._call_pairs
