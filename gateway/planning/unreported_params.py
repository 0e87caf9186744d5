"""Checks whether an upstream reported the requested log probabilities and service tier."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gateway.replies.loss_header import collect_facts
from providers.base import Batch
from translation.encoding.visible_output import UNREPORTED_FACT
from translation.representation.delta_runs import EventStage, TextKey, TextObserver
from translation.representation.events import Delta, Finished, Noted, PartStarted

_TIER_PARAM: Final = "service_tier"
_ANY_TIER: Final = (None, "auto", "default")
"""Values that every upstream honours. A reply of the Responses API has the tier `default` unless another is known."""


def requests_tier(params: Mapping[str, Any]) -> bool:
    """Whether the parameters of a request ask for a service tier that not every upstream has."""
    return params.get(_TIER_PARAM) not in _ANY_TIER


class LogprobsCheck:
    """An event mapper that adds the fact `unreported` before the end of a reply with text but no log probabilities.

    Some models and server versions omit them silently, which is known only at the end. `param` is the client's
    parameter, and `event_stage` sees the events first.
    """

    def __init__(self, param: str, event_stage: EventStage | None) -> None:
        self._param = param
        self._event_stage = event_stage
        self._has_text = self._has_logprobs = False

    def delta_observers(self, text_key: TextKey) -> Sequence[TextObserver] | None:
        """Returns the observers of the stage before. Deltas of a run have no log probabilities, so none has to be
        fed."""
        return () if self._event_stage is None else self._event_stage.delta_observers(text_key)

    def feed(self, batch: Batch) -> Batch:
        events = batch if self._event_stage is None else self._event_stage.feed(batch)
        for event in events:
            match event:
                case Delta(logprobs=logprobs):
                    self._has_logprobs = self._has_logprobs or bool(logprobs)
                case PartStarted(part={"type": "output_text"}):
                    self._has_text = True
        if events and isinstance(events[-1], Finished) and self._has_text and not self._has_logprobs:
            return [*events[:-1], Noted(facts={UNREPORTED_FACT: self._param}), events[-1]]
        return events


class ServiceTierCheck:
    """An event mapper that adds the fact `unreported` before the end of a reply without a service tier.

    `event_stage` sees the events first.
    """

    def __init__(self, event_stage: EventStage | None) -> None:
        self._event_stage = event_stage
        self._is_reported = False

    def delta_observers(self, text_key: TextKey) -> Sequence[TextObserver] | None:
        """Returns the observers of the stage before. Deltas have no service tier, so none has to be fed."""
        return () if self._event_stage is None else self._event_stage.delta_observers(text_key)

    def feed(self, batch: Batch) -> Batch:
        events = batch if self._event_stage is None else self._event_stage.feed(batch)
        self._is_reported = self._is_reported or any(fact.get(_TIER_PARAM) for fact in collect_facts(events))
        if events and isinstance(end := events[-1], Finished) and not self._is_reported:
            if (end.response or {}).get(_TIER_PARAM):
                return events
            return [*events[:-1], Noted(facts={UNREPORTED_FACT: _TIER_PARAM}), end]
        return events
