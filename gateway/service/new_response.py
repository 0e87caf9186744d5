"""Builds what is stored of a run before it begins: its response, and what a replica needs to run it again."""

from gateway.planning.admitted_request import AdmittedRequest
from gateway.planning.continuation import Continuation
from gateway.replies.endpoints import ResponseForm
from gateway.service.run import Run
from gateway.state.values import NewResponse
from providers.new_id import new_id
from translation.representation.json_types import Json
from translation.responses.client.initial_response import new_response
from translation.responses.client.storable_items import with_distinct_ids
from translation.tools.credentials import remove_body_credentials, remove_item_credentials


def build_new_response(run: Run, state: Continuation, *, is_queued: bool, worker: str) -> NewResponse:
    """Returns the beginning of the response that a run produces, for the store.

    `is_queued`: it has not begun when it is stored. `worker` is the name of this process in the store.
    """
    initial = build_initial_response(run)
    # History that exists only on the connection has no stored parent, so it is stored with the input.
    input_items = state.new_items if state.parent_id or state.conversation_id else state.context
    return NewResponse(
        owner=run.owner,
        response=initial | {"status": "queued"} if is_queued else initial,
        input_items=remove_item_credentials(with_distinct_ids(input_items, new_id)),
        parent_id=state.parent_id,
        conversation_id=state.conversation_id,
        worker=worker,
        headers=run.find_stored_headers(),
    )


def build_initial_response(run: Run) -> Json:
    """Returns the response at its beginning, as the upstream of the present attempt gives it its parameters."""
    identity = run.identity
    return new_response(
        run.body, response_id=identity.id, created_at=identity.created, model=identity.model, prompt=identity.prompt
    )


def build_job_request(run: Run, planned: AdmittedRequest, form: ResponseForm, *, in_background: bool) -> Json:
    """Returns what a replica needs to run an accepted request from its start, besides the body for its upstream.

    `form` is that of its body. `in_background` says whether its client got a reply before it runs.
    """
    request = run.request
    principal, tools, approvals = request.principal, request.facts.tools, planned.approvals
    body, key = run.body, None
    if run.attempts is not None:  # what is echoed depends on the upstream that answers
        body = form.echo_storage(request.body, True, in_background)
        key = run.attempts.turn.key
    return {
        "dialect": request.endpoint.name,
        "models": list(principal.models),
        "mcp_servers": list(principal.mcp_servers),
        "strict": request.client_is_strict,
        "created": run.identity.created,
        **({} if run.identity.prompt is None else {"prompt": run.identity.prompt}),
        "shown": remove_body_credentials(form.remove_input(body)),
        "earlier": planned.history_count,
        "tokens": planned.history_tokens,
        "approvals": None if approvals is None else approvals.save_answers(),
        "runs_tools": run.loop_io is not None,
        "tool_events": tools.reports_events,
        "elicitation": tools.takes_input,
        "affinity": None if key is None else key.to_json(),
    }
