"""Accepts requests: validates the body, resolves its route, joins it with its history, and plans the turn.

Nothing is sent here. Nothing is stored, except the beginning of a message that continues another one of its thread.
"""

from gateway.planning.managed_context import fill_compaction_threshold
from gateway.planning.plan_input import AdmittedRequest
from gateway.replies.endpoints import ResponseForm
from gateway.service.accepted_request import AcceptedRequest
from gateway.service.admission import Admission, ClientRequest
from gateway.service.idempotency.keys import KEY_IGNORED
from gateway.service.storage import StorageChooser


class Intake:
    """Accepts requests of every API that models answer. There is one per configuration.

    `keeps_keys` says whether there is a store: without one, idempotency keys have no effect.
    """

    def __init__(self, admission: Admission, storage: StorageChooser, *, keeps_keys: bool) -> None:
        self._admission = admission
        self._storage = storage
        self._keeps_keys = keeps_keys

    async def accept(self, client_request: ClientRequest) -> AcceptedRequest:
        """Validates, routes and plans a request, without sending anything.

        Raises InvalidRequest, UnknownModel, NotFound and StoreUnavailable.
        """
        admitted = await self._admission.admit(client_request)
        if client_request.has_key and not self._keeps_key_of(admitted):
            admitted = admitted._replace(losses=[*admitted.losses, KEY_IGNORED])
        endpoint, body, facts, route = admitted[:4]
        if facts.context.is_compacted:
            body, facts = await fill_compaction_threshold(endpoint, body, facts, route.target)
            admitted = admitted._replace(body=body, facts=facts)
        tool_host = None
        if facts.tools.hosted or route.target.mcp_servers:
            tool_host = await self._admission.find_tool_host(endpoint, facts, route.target, client_request.principal)
        storage = self._storage.choose(admitted, client_request.connection_items, has_key=client_request.has_key)
        return await storage.accept(admitted, tool_host, client_request.weight)

    def _keeps_key_of(self, admitted: AdmittedRequest) -> bool:
        """Whether repeated requests with the same key follow the response to this one."""
        form = admitted.endpoint.storage
        allows_jobs = isinstance(form, ResponseForm) and form.allows_jobs
        return self._keeps_keys and allows_jobs and admitted.facts.state.is_stored
