"""Loads what a request of the Responses API continues: its history, and the approvals of earlier calls."""

from collections.abc import Iterable, Mapping, Sequence

from gateway.planning.admitted_request import ThreadRun
from gateway.planning.continuation import Continuation, continue_thread, resolve_continuation
from gateway.state.store import HistoryReader
from gateway.tools.approvals import ApprovalFactory, ResponseApprovals
from translation.representation.json_types import Item
from translation.request_facts import RequestFacts


class HistorySource:
    """Loads what requests of the Responses API continue: from the store, or from the connection alone."""

    def __init__(
        self,
        history: HistoryReader,
        connection_items: Mapping[str, Sequence[Item]] | None,
        approvals: ApprovalFactory | None,
    ) -> None:
        """`approvals` is None if approvals cannot be stored."""
        self._history = history
        self._connection_items = connection_items
        self._approvals = approvals

    async def load(self, owner: str, facts: RequestFacts, thread: ThreadRun | None) -> Continuation:
        """Returns the resolved input of a request. Raises what `resolve_continuation` raises."""
        if thread is not None:
            return await continue_thread(thread.history, facts, thread.turn.conversation["id"])
        return await resolve_continuation(self._history, owner, facts, self._connection_items)

    async def load_approvals(
        self, owner: str, response_id: str, state: Continuation, server_labels: Iterable[str]
    ) -> ResponseApprovals | None:
        """Returns the approvals of calls to these servers, with the valid answers in the input; None if approvals
        cannot be stored. Raises what `ApprovalFactory.load` raises."""
        if self._approvals is None:
            return None
        return await self._approvals.load(owner, response_id, state.context, state.new_items, server_labels)
