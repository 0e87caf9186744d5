"""The twelve events every upstream becomes and every endpoint consumes.

Verbs are closed (these classes); nouns are open (the Responses API's own strings inside `item` and `part`). The order
they may come in is `translation/representation/grammar.py`:

    Started ( ItemStarted ( PartStarted Delta* PartEnded )* ItemEnded )* ( Finished | Failed )

Items are addressed by `index`, never by id. Treat events as values: they are not frozen only because frozen dataclasses
cost four times as much to make.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from translation.representation.json_types import Item, Json

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "other"]
ItemStatus: TypeAlias = Literal["completed", "incomplete"]


@dataclass(slots=True)
class Usage:
    """Token counts. `None` means the upstream did not report it, never zero.

    `reasoning` is counted inside `output`; `cache_read` and `cache_write` inside `input`.
    """

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    raw: Json | None = None


@dataclass(slots=True)
class Started:
    """The upstream accepted the turn. First, once. `response` is its own opening snapshot, if it sent one."""

    model: str
    upstream_id: str | None = None
    response: Json | None = None


@dataclass(slots=True)
class ItemStarted:
    """A new item. `index` counts items from 0; `item` has `type` and a non-empty `id`."""

    index: int
    item: Item


@dataclass(slots=True)
class PartStarted:
    """A new part of an open item; `part_index` counts that item's parts from 0 in order of appearance."""

    index: int
    part_index: int
    part: Json


@dataclass(slots=True)
class Delta:
    """Text for a part, or with `part_index=None` for the item itself (arguments, input, code).

    `logprobs` are in the full Responses form: token, logprob, bytes, top_logprobs.
    """

    index: int
    part_index: int | None
    text: str
    logprobs: list[Json] | None = None
    token_ids: list[int] | None = None


@dataclass(slots=True)
class PartEnded:
    """The text of a part (or of the item itself) is complete. `part` is the upstream's own final object, if any."""

    index: int
    part_index: int | None
    part: Json | None = None


@dataclass(slots=True)
class ItemEnded:
    """The item is complete. `item` is the upstream's own final object; `None` means: add it up from the deltas."""

    index: int
    item: Item | None = None
    status: ItemStatus = "completed"


@dataclass(slots=True)
class Annotated:
    """A citation on a part."""

    index: int
    part_index: int
    annotation: Json


@dataclass(slots=True)
class Progressed:
    """A hosted tool moved: `in_progress`, `searching`, `interpreting`, `partial_image`, `completed`, `failed`."""

    index: int
    phase: str
    extra: Json | None = None


@dataclass(slots=True)
class Noted:
    """Metadata learnt mid-stream: usage, or facts such as `service_tier` and `system_fingerprint` in `facts`."""

    usage: Usage | None = None
    facts: Json | None = None


@dataclass(slots=True)
class Opaque:
    """An upstream event without a meaning here. Encoders of the same `dialect` forward `payload`, others drop it."""

    dialect: str
    payload: Json
    index: int | None = None


@dataclass(slots=True)
class Finished:
    """The turn ended well. `raw_reason` is the upstream's word; `response` its own closing snapshot, if it sent one."""

    reason: FinishReason
    raw_reason: str | None = None
    usage: Usage | None = None
    response: Json | None = None


@dataclass(slots=True)
class Failed:
    """The turn ended badly. `code` is from the gateway's error table; `message` may be shown to the client."""

    code: str
    message: str
    param: str | None = None
    usage: Usage | None = None


Event: TypeAlias = (
    Delta
    | Started
    | ItemStarted
    | PartStarted
    | PartEnded
    | ItemEnded
    | Annotated
    | Progressed
    | Noted
    | Opaque
    | Finished
    | Failed
)
