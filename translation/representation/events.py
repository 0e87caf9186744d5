"""The twelve events that every decoder emits and every encoder consumes.

The set of classes is closed. The types inside `item` and `part` are open: they are the Responses API's own strings.
`tests/unit/support/event_grammar.py` checks the order of events:

    Started ( ItemStarted ( PartStarted Delta* PartEnded )* ItemEnded )* ( Finished | Failed )

Items are addressed by `index`, never by id. Treat events as immutable values. They are not frozen only because a frozen
dataclass takes four times as long to create.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from translation.representation.json_types import Item, Json
from translation.representation.loss import LOSSES, render_reply_losses

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "other"]
CUT_OFF_REASONS: Final[frozenset[FinishReason]] = frozenset({"length", "content_filter"})
"""The reasons of replies that are not complete."""

ItemStatus: TypeAlias = Literal["completed", "incomplete"]

NATIVE_REASON: Final = "native_finish_reason"
"""The key of `Finished.unknown_reason` in replies. OpenRouter's chat completions have it too."""

FINISH_MESSAGE: Final = "finish_message"
"""The key of `Finished.explanation` in replies."""

_MAX_REASON_CHARS: Final = 100
_MAX_EXPLANATION_CHARS: Final = 1000


@dataclass(slots=True)
class Usage:
    """Token counts of one turn. `None` means that the upstream did not report the count; it never means zero.

    `output` includes `reasoning`; `input` includes `cache_read` and `cache_write`. `raw` is the upstream's own object.
    """

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    raw: Json | None = None


def add_usage(one: Usage | None, other: Usage | None) -> Usage | None:
    """Returns the sum of two usages. A count that neither of them reports stays None."""
    if one is None or other is None:
        return one or other
    return Usage(
        input=_add_counts(one.input, other.input),
        output=_add_counts(one.output, other.output),
        cache_read=_add_counts(one.cache_read, other.cache_read),
        cache_write=_add_counts(one.cache_write, other.cache_write),
        reasoning=_add_counts(one.reasoning, other.reasoning),
    )


def _add_counts(one: int | None, other: int | None) -> int | None:
    return None if one is None and other is None else (one or 0) + (other or 0)


@dataclass(slots=True)
class Started:
    """The upstream accepted the turn. It comes once, before any item.

    `response` is the upstream's own opening snapshot, if it sent one.
    """

    model: str
    upstream_id: str | None = None
    response: Json | None = None


@dataclass(slots=True)
class ItemStarted:
    """A new item was opened. `index` counts items from 0; `item` has a non-empty `type` and `id`."""

    index: int
    item: Item


@dataclass(slots=True)
class PartStarted:
    """A new part of an open item was opened. `part_index` counts the item's parts from 0 in order of appearance."""

    index: int
    part_index: int
    part: Json


@dataclass(slots=True)
class Delta:
    """Text was appended to a part, or with `part_index=None` to the item itself (arguments, input, code).

    `logprobs` are in the full Responses form: token, logprob, bytes, top_logprobs.
    """

    index: int
    part_index: int | None
    text: str
    logprobs: list[Json] | None = None
    token_ids: list[int] | None = None


@dataclass(slots=True)
class PartEnded:
    """The text of a part, or of the item itself, is complete. `part` is the upstream's own final object, if any."""

    index: int
    part_index: int | None
    part: Json | None = None


@dataclass(slots=True)
class ItemEnded:
    """The item is complete. `item` is the upstream's own final object; `None`: the deltas add up to the final item."""

    index: int
    item: Item | None = None
    status: ItemStatus = "completed"


@dataclass(slots=True)
class Annotated:
    """A citation was added to a part."""

    index: int
    part_index: int
    annotation: Json


@dataclass(slots=True)
class Progressed:
    """A hosted tool entered a new phase.

    `phase` is the last part of the Responses event type: `in_progress`, `searching`, `interpreting`, `partial_image`,
    `completed`, `failed`, …
    """

    index: int
    phase: str
    extra: Json | None = None


@dataclass(slots=True)
class Noted:
    """The upstream reported metadata: `usage`, or `facts` such as `service_tier` and `system_fingerprint`."""

    usage: Usage | None = None
    facts: Json | None = None


STOP_SEQUENCE_FACT: Final = "stop_sequence"
"""The name of the fact that a stop sequence of the request ended the reply. Its value is the sequence."""

STOP_DETAILS_FACT: Final = "stop_details"
"""The name of the fact with what the Messages API says of a refusal: `category` and `explanation`, texts or None."""


@dataclass(slots=True)
class Opaque:
    """An upstream event that no other class covers. Encoders of its `dialect` forward `payload`, others drop it."""

    dialect: str
    payload: Json
    index: int | None = None
    is_output: bool = field(default=False, compare=False)
    """Whether it is a part of the answer, and not an event around it."""


@dataclass(slots=True)
class Finished:
    """The turn ended without a failure.

    `raw_reason` is the finish reason as the upstream wrote it. `response` is its own closing snapshot, if it sent one.
    """

    reason: FinishReason
    raw_reason: str | None = None
    usage: Usage | None = None
    response: Json | None = None
    is_unknown: bool = field(default=False, repr=False)
    """Whether `reason` is only the nearest one: the turn was cut off, for a reason whose meaning is not known."""
    lacks: Sequence[str] = field(default=(), repr=False)
    """Output of the model that the client does not get, by the names that losses have for it."""
    explanation: str | None = field(default=None, repr=False)
    """The upstream's own words on why it cut the answer off."""

    def has_remarks(self) -> bool:
        """Returns whether there may be `remarks`, which the ends of most replies do not have."""
        return self.is_unknown or self.reason == "other" or bool(self.lacks) or self.explanation is not None

    @property
    def unknown_reason(self) -> str | None:
        """The upstream's own finish reason, if its meaning is not known. Every API shows it beside its own reason, so
        that a reply which ended in an unknown way is not taken for one that is complete."""
        if not self.raw_reason or not (self.is_unknown or self.reason == "other"):
            return None
        return self.raw_reason[:_MAX_REASON_CHARS]

    @property
    def remarks(self) -> Json:
        """Fields that most APIs add to the end of a reply: a reason that is not known, the upstream's words on it, and
        what the reply lacks.

        Headers of a stream are sent too early to say so.
        """
        unknown = self.unknown_reason
        remarks: Json = {} if unknown is None else {NATIVE_REASON: unknown}
        if self.explanation is not None:
            remarks[FINISH_MESSAGE] = self.explanation[:_MAX_EXPLANATION_CHARS]
        return {**remarks, LOSSES: render_reply_losses(self.lacks)} if self.lacks else remarks


@dataclass(slots=True)
class Failed:
    """The turn failed. `code` is from the gateway's error table; `message` may be shown to the client."""

    code: str
    message: str
    param: str | None = None
    usage: Usage | None = None

    def redact(self, scrub: Callable[[str], str]) -> None:
        """Redacts what may come from an upstream: message, code and parameter."""
        self.message, self.code = scrub(self.message), scrub(self.code)
        if self.param is not None:
            self.param = scrub(self.param)


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
