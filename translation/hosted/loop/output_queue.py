"""Keeps the events of a reply in order: events behind a call of a hosted tool wait until that call has ended."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from translation.hosted.approvals import ApprovalRequest
from translation.hosted.calls import HostedCall, build_approval_request
from translation.hosted.elicitation.forms import RequestedInput
from translation.hosted.tool_report import ToolReport
from translation.hosted.tools import HostedTool
from translation.representation.events import Event, ItemEnded, ItemStarted


class OutputQueue:
    """The output of one reply over all of its rounds.

    Events are ready at once as long as no call is unsettled. Behind an unsettled call they wait, so that items end in
    the order in which they began; and behind a request for an approval that is not stored.
    """

    def __init__(self, is_cut: Callable[[str], bool] = lambda _: False) -> None:
        """`is_cut` says whether the model reads a result of this text in parts."""
        self.report: Final = ToolReport()
        """What the calls have done that have ended."""
        self._is_cut = is_cut
        self.item_count = 0
        """The number of items that have an index."""
        self._ready: list[Event] = []
        self._waiting: deque[Event | HostedCall | ApprovalRequest] = deque()
        """The events that wait. The first entry is a call that is not settled, or a request that is not stored."""

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

    def put_approval_request(self, call: HostedCall, tool: HostedTool, item_id: str) -> None:
        """Adds the item that asks the client to approve a call of this tool."""
        item = build_approval_request(call, item_id)
        self._waiting.append(ApprovalRequest(item, self.take_index(), tool))

    def put_input_request(self, call: HostedCall, tool: HostedTool, item_id: str, requested: RequestedInput) -> None:
        """Adds the item that asks the client for the input of a call of this tool. The call is in the output."""
        call.input_request_id = item_id
        requested = replace(requested, call_id=call.client_id)
        item = build_approval_request(call, item_id, requested)
        self._waiting.append(ApprovalRequest(item, self.take_index(), tool, requested))

    @property
    def is_waiting(self) -> bool:
        """Whether events of items wait behind a call or a request."""
        return bool(self._waiting)

    @property
    def unsettled_calls(self) -> list[HostedCall]:
        """The calls that wait for their outcome, in their order."""
        return [entry for entry in self._waiting if isinstance(entry, HostedCall) and not entry.is_settled]

    @property
    def approval_requests(self) -> list[ApprovalRequest]:
        """The requests for approvals that must be stored."""
        return [entry for entry in self._waiting if isinstance(entry, ApprovalRequest) and not entry.is_stored]

    @property
    def waiting(self) -> list[Event | HostedCall]:
        """The waiting events and calls, once all requests are stored. The first entry is a call that is not settled."""
        waiting: list[Event | HostedCall] = []
        for entry in self._waiting:
            waiting += _request_events(entry) if isinstance(entry, ApprovalRequest) else [entry]
        return waiting

    def restore(self, item_count: int, waiting: Iterable[Event | HostedCall]) -> None:
        """Restores the state of another queue, which had indexed `item_count` items and had these entries waiting."""
        self.item_count = item_count
        self._waiting.extend(waiting)
        self.release()

    def release(self) -> None:
        """Ends the calls that are settled, up to the first that is not, and makes the events behind them ready."""
        while self._waiting:
            entry = self._waiting[0]
            if isinstance(entry, HostedCall):
                if not entry.is_settled:
                    return
                self._ready += entry.build_end_events()
                self.report.add_call(entry.report_name, entry.build_figures(self._is_cut))
            elif isinstance(entry, ApprovalRequest):
                if not entry.is_stored:
                    return
                self._ready += _request_events(entry)
            else:
                self._ready.append(entry)
            self._waiting.popleft()

    def take(self) -> list[Event]:
        """Returns the events that are ready, each of them once."""
        ready, self._ready = self._ready, []
        return ready


def _request_events(request: ApprovalRequest) -> list[Event]:
    return [ItemStarted(request.index, request.item), ItemEnded(request.index, request.item)]
