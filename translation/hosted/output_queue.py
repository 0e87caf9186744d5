"""Keeps the events of a reply in order: what follows a call of a hosted tool waits until that call has ended."""

from collections import deque

from translation.hosted.calls import HostedCall
from translation.representation.events import Event


class OutputQueue:
    """The output of one reply over all of its rounds.

    Events are ready at once as long as no call is unsettled. Behind an unsettled call they wait, so that items end in
    the order in which they began.
    """

    def __init__(self) -> None:
        self.item_count = 0
        """How many items have an index."""
        self._ready: list[Event] = []
        self._waiting: deque[Event | HostedCall] = deque()
        """Is empty, or begins with a call that is not settled."""

    def take_index(self) -> int:
        """Returns the index of the next item."""
        self.item_count += 1
        return self.item_count - 1

    def send_now(self, event: Event) -> None:
        """Adds an event that belongs to no item. It does not wait."""
        self._ready.append(event)

    def put(self, *events: Event) -> None:
        """Adds events of items. They wait behind an unsettled call."""
        (self._waiting or self._ready).extend(events)

    def put_call(self, call: HostedCall) -> None:
        """Adds the end of a call, whose first events are in the output already."""
        self._waiting.append(call)
        self.release()

    @property
    def is_waiting(self) -> bool:
        """Whether events of items wait behind a call."""
        return bool(self._waiting)

    @property
    def unsettled_calls(self) -> list[HostedCall]:
        """The calls that wait for their outcome, in their order."""
        return [entry for entry in self._waiting if isinstance(entry, HostedCall) and not entry.is_settled]

    def release(self) -> None:
        """Ends the calls that are settled, up to the first that is not, and makes the events behind them ready."""
        while self._waiting:
            entry = self._waiting[0]
            if not isinstance(entry, HostedCall):
                self._ready.append(entry)
            elif entry.is_settled:
                self._ready += entry.end_events()
            else:
                return
            self._waiting.popleft()

    def take(self) -> list[Event]:
        """Returns the events that are ready, each of them once."""
        ready, self._ready = self._ready, []
        return ready
