"""Log probabilities that a turn asked for, held against what its upstream said."""

from gateway.replies.loss_header import UNREPORTED
from gateway.replies.reply_streams import CallMapping
from providers.base import Batch
from translation.representation.events import Delta, Finished, Noted, PartStarted


class AskedLogprobs:
    """Notes before the end of a reply that has text and no log probabilities that there are none.

    Some models and versions of servers leave them out without a word, so it is known only then.
    """

    def __init__(self, param: str, calls: CallMapping | None) -> None:
        self._param = param
        self._calls = calls
        self._has_text = self._has_logprobs = False

    def feed(self, batch: Batch) -> Batch:
        said = batch if self._calls is None else self._calls.feed(batch)
        for event in said:
            match event:
                case Delta(logprobs=logprobs):
                    self._has_logprobs = self._has_logprobs or bool(logprobs)
                case PartStarted(part={"type": "output_text"}):
                    self._has_text = True
        if said and isinstance(said[-1], Finished) and self._has_text and not self._has_logprobs:
            return [*said[:-1], Noted(facts={UNREPORTED: self._param}), said[-1]]
        return said
