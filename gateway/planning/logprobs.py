"""Checks whether an upstream returned the log probabilities that a request asked for."""

from collections.abc import Sequence

from gateway.replies.loss_header import UNREPORTED_FACT
from providers.base import Batch
from translation.representation.delta_runs import TextKey, TextObserver
from translation.representation.event_stage import EventStage
from translation.representation.events import Delta, Finished, Noted, PartStarted


class LogprobsCheck:
    """An event mapper that adds the fact `unreported` before the end of a reply with text but no log probabilities.

    Some models and server versions leave them out silently, so that is known only at the end. `param` is the client's
    parameter, and `event_stage` sees the events first.
    """

    def __init__(self, param: str, event_stage: EventStage | None) -> None:
        self._param = param
        self._event_stage = event_stage
        self._has_text = self._has_logprobs = False

    def delta_observers(self, text_key: TextKey) -> Sequence[TextObserver] | None:
        """Returns what the stage before wants. Deltas of a run have no log probabilities, so none has to be seen."""
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
