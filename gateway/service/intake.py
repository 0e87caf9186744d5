"""Accepts requests: validates the body, resolves its route, joins it with its history, and plans the turn.

Nothing is sent here. Nothing is stored, except the beginning of a message that continues another one of its thread.
"""

from gateway.planning.admitted_request import AdmittedRequest
from gateway.planning.managed_context import fill_compaction_threshold
from gateway.replies.endpoints import ResponseForm
from gateway.service.admission import Admission, ClientRequest
from gateway.service.idempotency.keys import KEY_IGNORED
from gateway.service.run import Run
from gateway.service.storage import StorageChooser


class Intake:
    """Accepts requests of every API that models answer. There is one per configuration.

    `keeps_keys` says whether there is a store: without one, idempotency keys have no effect.
    """

    def __init__(self, admission: Admission, storage: StorageChooser, *, keeps_keys: bool) -> None:
        self._admission = admission
        self._storage = storage
        self._keeps_keys = keeps_keys

    async def accept(self, client_request: ClientRequest) -> Run:
        """Validates, routes and plans a request, without sending anything.

        Raises InvalidRequest, UnknownModel, NotFound and StoreUnavailable.
        """
        request = await self._admission.admit(client_request)
        if client_request.has_key and not self._keeps_key_of(request):
            request = request._replace(losses=[*request.losses, KEY_IGNORED])
        if request.facts.context.is_compacted:
            request = await fill_compaction_threshold(request)
        if request.facts.tools.hosted or request.target.adds_tools:
            request = await self._admission.add_tool_host(request)
        storage = self._storage.choose(request, client_request.connection_items, has_key=client_request.has_key)
        return await storage.accept(request, client_request.weight)

    def _keeps_key_of(self, request: AdmittedRequest) -> bool:
        """Whether repeated requests with the same key follow the response to this one."""
        form = request.endpoint.storage
        allows_jobs = isinstance(form, ResponseForm) and form.allows_jobs
        return self._keeps_keys and allows_jobs and request.facts.state.is_stored
