"""The section `routing`: how turns are shared between the upstreams of one model name, repeated, and limited."""

import re
from typing import Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from providers.overrides import Number, WholeNumber

Balance: TypeAlias = Literal["least_busy", "weighted", "latency", "prefix"]
"""How an upstream is chosen for a turn without an affinity key."""

Judgement: TypeAlias = Literal["context_length_exceeded", "content_filter"]
"""What an upstream may say about a request that another upstream may see differently."""

AFFINITY_HEADER: Final = "header:"
"""The beginning of an `affinity` that names the header with the key."""

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class TurnRouting(BaseModel):
    """How the turns of one model name are repeated and queued. Each key can also be set for a single name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    attempts: WholeNumber = Field(
        default=3,
        ge=1,
        le=10,
        description="The most attempts of one turn, repetitions and other upstreams together. The `retries` of "
        "providers are not used beside `upstreams`.",
    )
    wait_s: Number = Field(
        default=2.0,
        ge=0,
        allow_inf_nan=False,
        description="Seconds that one turn may spend waiting between attempts, in all.",
    )
    retry_unsafe: bool = Field(
        default=True,
        description="Whether a turn may be repeated if an upstream may have begun it. The tokens of both are billed.",
    )
    fallback_on: tuple[Judgement, ...] = Field(
        default=(),
        description="Judgements of an upstream after which the next one is asked: that the prompt is too long for its "
        "model, that its filter refuses the content, both, or none (`[]`).",
    )
    first_content_s: Number | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Seconds from sending a request to the first content of its stream, after which the attempt has "
        "failed. If left out, only the provider's `silence_s` applies.",
    )
    total_s: Number | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Seconds for a whole turn. After them it fails, and no further attempt begins.",
    )
    queue_s: Number = Field(
        default=10.0,
        ge=0,
        allow_inf_nan=False,
        description="The longest wait of a turn, in seconds, while each upstream that can serve it has "
        "`max_in_flight`.",
    )
    queue_length: WholeNumber = Field(
        default=1000,
        ge=0,
        description="The most turns that wait for one name in one server process. One owner may have all places. Once "
        "all are taken, the newest turn of the owner with the most makes room for a turn of an owner with at least two "
        "fewer, and fails with status 503; any other new turn fails so itself.",
    )


class RoutingSettings(TurnRouting):
    """How turns are shared between the upstreams of a model name (docs/routing.md). A reload changes it."""

    retry_share: Number = Field(
        default=0.2,
        ge=0,
        le=1,
        description="The repetitions that each turn of a name adds to the name's retry budget.",
    )
    retries_per_s: Number = Field(
        default=3.0,
        ge=0,
        allow_inf_nan=False,
        description="The repetitions that each second adds to it. The budget has ten times as many at most. With 0 "
        "here and for `retry_share`, a request that was sent is not repeated.",
    )
    eject_failures: WholeNumber = Field(
        default=5,
        ge=1,
        description="Failures in a row after which an upstream is ejected: it gets no turns for a while.",
    )
    eject_share: Number = Field(
        default=0.5,
        gt=0,
        le=1,
        description="The share of failures within `eject_window_s` after which an upstream is ejected.",
    )
    eject_samples: WholeNumber = Field(
        default=5, ge=1, description="The least results within `eject_window_s` for which `eject_share` counts."
    )
    eject_window_s: Number = Field(
        default=10.0, gt=0, allow_inf_nan=False, description="Seconds for which a result counts in `eject_share`."
    )
    eject_s: Number = Field(
        default=5.0,
        gt=0,
        allow_inf_nan=False,
        description="Seconds of the first ejection. Each further one in a row lasts twice as long.",
    )
    eject_max_s: Number = Field(
        default=60.0, gt=0, allow_inf_nan=False, validate_default=True, description="Seconds of the longest ejection."
    )
    park_s: Number = Field(
        default=1.0,
        gt=0,
        allow_inf_nan=False,
        description="Seconds for which an upstream gets no turns after a 429 that does not say how long to wait.",
    )
    park_max_s: Number = Field(
        default=300.0,
        gt=0,
        allow_inf_nan=False,
        validate_default=True,
        description="The longest such time, whatever a 429 says.",
    )
    reply_headers: bool = Field(
        default=True, description="Whether replies have the headers `x-gateway-upstream` and `x-gateway-attempts`."
    )

    @field_validator("eject_max_s", "park_max_s")
    @classmethod
    def _require_order(cls, longest: float, info: ValidationInfo) -> float:
        first = {"eject_max_s": "eject_s", "park_max_s": "park_s"}[info.field_name or ""]
        if longest < info.data.get(first, 0.0):
            raise PydanticCustomError(
                "order",
                "write at least {first}, which is {seconds} s, or a smaller {first}",
                {"first": first, "seconds": f"{info.data[first]:g}"},
            )
        return longest

    def for_model(self, overrides: TurnRouting | None) -> TurnRouting:
        """Returns the keys for one name: those that its own section sets, and the others from here."""
        own = {} if overrides is None else {name: getattr(overrides, name) for name in overrides.model_fields_set}
        return TurnRouting.model_construct(**{name: getattr(self, name) for name in TurnRouting.model_fields} | own)


def find_affinity_problem(affinity: str) -> str | None:
    """Returns what is wrong with a value of `affinity`; None if nothing is."""
    if affinity in ("auto", "none"):
        return None
    if not affinity.startswith(AFFINITY_HEADER):
        return "write auto, none or header:NAME"
    name = affinity.removeprefix(AFFINITY_HEADER)
    return (
        None
        if _HEADER_NAME.fullmatch(name)
        else f"{name!r:.40} is no name of a header: write one, as in header:x-session"
    )
