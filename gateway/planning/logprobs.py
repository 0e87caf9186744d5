"""Checks whether an upstream returned the log probabilities that a request asked for."""

from gateway.replies.loss_header import UNREPORTED_FACT
from gateway.replies.reply_streams import EventMapper
from providers.base import Batch
from translation.representation.events import Delta, Finished, Noted, PartStarted


class LogprobsCheck:
    """An event mapper that adds the fact `unreported` before the end of a reply with text but no log probabilities.

    Some models and server versions leave them out silently, so that is known only at the end. `param` is the client's
    parameter, and `event_mapper` maps the events first.
    """

    def __init__(self, param: str, event_mapper: EventMapper | None) -> None:
        self._param = param
        self._event_mapper = event_mapper
        self._has_text = self._has_logprobs = False

    def feed(self, batch: Batch) -> Batch:
        events = batch if self._event_mapper is None else self._event_mapper.feed(batch)
        for event in events:
            match event:
                case Delta(logprobs=logprobs):
                    self._has_logprobs = self._has_logprobs or bool(logprobs)
                case PartStarted(part={"type": "output_text"}):
                    self._has_text = True
        if events and isinstance(events[-1], Finished) and self._has_text and not self._has_logprobs:
            return [*events[:-1], Noted(facts={UNREPORTED_FACT: self._param}), events[-1]]
        return events
