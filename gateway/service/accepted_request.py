"""A request that was validated, routed and planned: produces its reply, and builds the records to store."""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from gateway.errors import ShuttingDown, StoreUnavailable
from gateway.planning.continuation import Continuation
from gateway.planning.plan_input import AdmittedRequest, PlanInput
from gateway.replies.event_stream import ReplyStream
from gateway.replies.recorder import ForegroundRecorder, ReplyRecorder
from gateway.service.run import Run
from gateway.state.values import NewResponse
from gateway.tools.approvals import ResponseApprovals
from providers.new_id import new_id
from translation.representation.json_types import Item, Json
from translation.responses.client.initial_response import new_response
from translation.responses.client.storable_items import with_distinct_ids
from translation.tools.credentials import remove_body_credentials, remove_item_credentials


@dataclass(slots=True)
class AcceptedRequest:
    """An accepted request whose reply has not begun."""

    run: Run
    context: Sequence[Item] = ()
    """The whole input of a Responses request: history items, then the request's own items."""
    recorder: ReplyRecorder | None = None
    """Stores the reply of a request in the foreground; None if it is not stored, or runs as a job."""
    job: NewResponse | None = None
    """The response to store before the request is answered, if it runs as a job; None in the foreground."""

    approvals: ResponseApprovals | None = None
    """The approvals of its tools; None if none of its tools needs approvals."""

    @property
    def response_id(self) -> str:
        return self.run.identity.id

    async def store_beginning(self) -> None:
        """Stores the beginning of a foreground response before its reply begins.

        Raises StoreUnavailable, InvalidRequest and RunInProgress.
        """
        if isinstance(self.recorder, ForegroundRecorder):
            await self.recorder.begin_now()

    def build_stream(self) -> ReplyStream:
        """Returns the reply as a stream. Its sender commits the reply to `recorder` before it concludes the stream."""
        return self.run.build_stream()

    def produce_reply(self) -> Awaitable[Json]:
        """Returns the reply as one JSON object, stored before it is returned.

        Raises TurnFailed, ProviderError and StoreUnavailable.
        """
        return self.run.produce_reply() if self.recorder is None else self._produce_and_store(self.recorder)

    async def _produce_and_store(self, recorder: ReplyRecorder) -> Json:
        recorder.begin_unsent()
        try:
            try:
                result = await self.run.produce_reply()
            except Exception as error:
                if (failed := self.run.fail_reply(error)) is not None:
                    with suppress(StoreUnavailable):  # the client gets the error of the reply
                        await recorder.finish(failed)
                raise
            await recorder.finish(result)
            return result
        except asyncio.CancelledError:
            await recorder.abandon(self.run.fail_reply(ShuttingDown()))
            raise
        finally:
            await recorder.abandon(None)

    def render_losses(self) -> str | None:
        """Returns the losses known so far as stored with the response: the value of `x-gateway-loss`, or None."""
        return self.run.render_losses()

    def build_loss_headers(self) -> dict[str, str]:
        """Returns the header `x-gateway-loss` with the losses known so far; empty if there are none."""
        return self.run.build_loss_headers()


def build_new_response(run: Run, state: Continuation, *, is_queued: bool, worker: str) -> NewResponse:
    """Returns the beginning of the response that a run produces, for the store.

    `is_queued`: it has not begun when it is stored. `worker` is the name of this process in the store.
    """
    identity = run.identity
    initial = new_response(run.body, response_id=identity.id, created_at=identity.created, model=identity.model)
    # History that exists only on the connection has no stored parent, so it is stored with the input.
    input_items = state.new_items if state.parent_id or state.conversation_id else state.context
    return NewResponse(
        owner=run.owner,
        response=initial | {"status": "queued"} if is_queued else initial,
        input_items=remove_item_credentials(with_distinct_ids(input_items, new_id)),
        parent_id=state.parent_id,
        conversation_id=state.conversation_id,
        worker=worker,
        losses=run.render_losses(),
    )


def build_job_request(admitted: AdmittedRequest, run: Run, planned: PlanInput) -> Json:
    """Returns what a replica needs to run an accepted request from its start, besides the body for its upstream."""
    principal, tools, approvals = admitted.principal, admitted.facts.tools, planned.approvals
    return {
        "dialect": run.endpoint.name,
        "models": list(principal.models),
        "mcp_servers": list(principal.mcp_servers),
        "strict": admitted.strict,
        "created": run.identity.created,
        "shown": remove_body_credentials({name: value for name, value in run.body.items() if name != "input"}),
        "earlier": planned.history_count,
        "tokens": planned.history_tokens,
        "approvals": None if approvals is None else approvals.save_answers(),
        "runs_tools": run.loop_io is not None,
        "tool_events": tools.reports_events,
        "elicitation": tools.takes_input,
    }
