"""Finds out which model of an upstream answers, where the upstream chooses one itself, as OpenRouter does.

Replies of other upstreams have no cost of it.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

import orjson

from dataplane.source import ReadTemplate
from gateway.replies.observers import ReplyEnd, RequestObserver
from gateway.replies.reply_streams import Relay
from gateway.replies.wrappers import RelayWrapper
from gateway.upstreams.outcomes import ResultName
from translation.hosted.tool_report import CallFigures
from translation.representation.delta_runs import EventStage, TextKey, TextObserver
from translation.representation.events import Event, Started, Usage

MODEL_HEADER: Final = "x-gateway-upstream-model"

_MODEL_MEMBER: Final = re.compile(rb'"model": ?("(?:[^"\\]|\\.){1,200}")')
"""A member of JSON: within a text its quotes would be escaped."""

OnModel = Callable[[str], None]
"""A callback that gets the upstream's name of the model that answers."""


def find_model(frames: bytes) -> str | None:
    """Returns the model that the first frame which names one has; None if none does."""
    member = _MODEL_MEMBER.search(frames)
    return None if member is None else str(orjson.loads(member[1]))


class ModelObserver:
    """Reports the model to another observer, when the attempt ends.

    The model becomes known in the call stack of a read, which may run without the log fields of its request.
    """

    def __init__(self, observer: RequestObserver) -> None:
        self._observer = observer
        self.model: str | None = None
        """The upstream's name of the model that answers, once it is known."""

    def note_model(self, model: str) -> None:
        self.model = model

    def observe_attempt(self, provider: str, number: int, model: str) -> None:
        self._observer.observe_attempt(provider, number, model)

    def observe_head(self) -> None:
        self._observer.observe_head()

    def observe_model(self, model: str) -> None:
        self._observer.observe_model(model)

    def observe_content(self) -> None:
        self._observer.observe_content()

    def observe_result(self, result: ResultName) -> None:
        self._observer.observe_result(result)

    def observe_round(self, usage: Usage | None, finish_reason: str | None) -> None:
        self._observer.observe_round(usage, finish_reason)

    def observe_call(self, tool: str, began_ns: int, figures: CallFigures) -> None:
        self._observer.observe_call(tool, began_ns, figures)

    def observe_end(self, end: ReplyEnd) -> None:
        if self.model is not None:
            self._observer.observe_model(self.model)
        self._observer.observe_end(end)


class ModelStage:
    """A stage that reports the model that a reply begins with. `event_stage` sees the events first."""

    def __init__(self, event_stage: EventStage | None, on_model: OnModel) -> None:
        self._event_stage = event_stage
        self._on_model = on_model

    def delta_observers(self, text_key: TextKey) -> Sequence[TextObserver] | None:
        return () if self._event_stage is None else self._event_stage.delta_observers(text_key)

    def feed(self, batch: Sequence[Event]) -> Sequence[Event]:
        events = batch if self._event_stage is None else self._event_stage.feed(batch)
        for event in events:
            if type(event) is Started and event.model:
                self._on_model(event.model)
        return events


class ModelRelay(RelayWrapper[Relay]):
    """A Relay that reports the model in the upstream's first frame that names one."""

    def __init__(self, relay: Relay, on_model: OnModel) -> None:
        super().__init__(relay)
        self._on_model: OnModel | None = on_model

    @property
    def template(self) -> ReadTemplate[bytes] | None:  # type: ignore[override]  # other wrappers have none
        return None if self._on_model is not None else self._relay.template

    def feed(self, read: bytes) -> bytes:
        if self._on_model is not None and (model := find_model(read)) is not None:
            self._on_model(model)
            self._on_model = None
        return self._relay.feed(read)
