"""Accepts requests: validates the body, resolves its route, joins it with its history, and plans the turn.

Nothing is sent here. Nothing is stored, except the beginning of a message that continues another one of its thread.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

import orjson

from gateway.errors import NotFound
from gateway.files.file_contents import FileContents
from gateway.http.large_bodies import LargeBodyPool
from gateway.planning.admitted_request import AdmittedRequest
from gateway.planning.managed_context import fill_compaction_threshold
from gateway.replies.endpoints import ResponseForm
from gateway.service.admission import Admission, ClientRequest
from gateway.service.idempotency.keys import KEY_IGNORED
from gateway.service.run import Run
from gateway.service.storage import StorageChooser
from gateway.state.prompt_records import PromptStore
from translation.lowering.input_files import FileContent, FilesNeeded
from translation.representation.json_types import Json
from translation.responses.prompts import read_version

_ResultT = TypeVar("_ResultT")

_NOT_LOADED: Final[Mapping[str, FileContent]] = {}


class InputFiles(Protocol):
    """What becomes of the ids of files in requests."""

    @property
    def reads_files(self) -> bool:
        """Whether the ids in requests are of files here, and not of an upstream."""
        ...

    def plan(
        self, request: AdmittedRequest, weight: int, plan: Callable[[AdmittedRequest, int], Awaitable[_ResultT]]
    ) -> Awaitable[_ResultT]:
        """Returns what `plan` returns for the request, with its files, and for its weight. Nobody else may have the
        request. Raises FileNotFound with the parameter, and what `plan` raises."""
        ...


class UpstreamFiles:
    """Leaves the ids of files as they are: without a store they are of files of the upstream."""

    reads_files: Final = False

    def plan(
        self, request: AdmittedRequest, weight: int, plan: Callable[[AdmittedRequest, int], Awaitable[_ResultT]]
    ) -> Awaitable[_ResultT]:
        return plan(request, weight)


class StoredInputFiles:
    """Loads the files that requests name.

    Most requests name no files, and whether one does is known once its turn is lifted, with its history. So it is
    planned again with the contents if it does.
    """

    reads_files: Final = True

    def __init__(self, contents: FileContents) -> None:
        self._contents = contents

    async def plan(
        self, request: AdmittedRequest, weight: int, plan: Callable[[AdmittedRequest, int], Awaitable[_ResultT]]
    ) -> _ResultT:
        request.files = _NOT_LOADED
        try:
            return await plan(request, weight)
        except FilesNeeded as needed:
            names = request.param_names
            params = {file_id: names.get(param, param) for file_id, param in needed.params.items()}
            contents, size = await self._contents.load(request.owner, params, needed.counts)
        request.files = contents
        return await plan(request, weight + size)


_PROMPT: Final = "prompt"


def build_version_error(prompt_id: str, version: int, param: str) -> NotFound:
    """Returns the error for a version that a prompt does not have. `param` is the parameter that names the version."""
    return NotFound(f"Prompt with id '{prompt_id:.80}' has no version '{version}'.", param=param)


class PromptInsertion:
    """Inserts prompts. `prompts` is None without a store. Large ones are inserted in the threads of `pool`."""

    def __init__(self, prompts: PromptStore | None, pool: LargeBodyPool) -> None:
        self._prompts = prompts
        self._pool = pool

    async def insert(self, client_request: ClientRequest) -> ClientRequest:
        """Returns the request with its prompt in its body, if the prompt is stored here: an upstream may have others.

        Raises InvalidRequest, NotFound for a version that there is not, and StoreUnavailable.
        """
        merge = client_request.endpoint.request.merge_prompt
        reference: Any = client_request.body.get(_PROMPT)
        if self._prompts is None or merge is None or not isinstance(reference, dict):
            return client_request
        if not isinstance(prompt_id := reference.get("id"), str):
            return client_request
        owner = client_request.principal.owner
        version = read_version(reference.get("version"), "prompt.version")
        prompt = await self._prompts.load_prompt(owner, prompt_id, version)
        if prompt is None:
            if version is not None and await self._prompts.load_prompt(owner, prompt_id) is not None:
                raise build_version_error(prompt_id, version, "prompt.version")
            return client_request
        variables = reference.get("variables")
        echo: Json = {"id": prompt_id, "version": str(prompt.version), "variables": variables}
        own_weight = client_request.weight
        body, size = await self._pool.call_weighed(
            own_weight + len(orjson.dumps(prompt.content)), merge, client_request.body, prompt.content, variables
        )
        return replace(client_request, body=body, weight=own_weight + size, prompt=echo)


class Intake:
    """Accepts requests of every API that models answer. There is one per configuration.

    `files` loads the files that requests name. `keeps_keys` says whether there is a store: without one, idempotency
    keys have no effect. `prompts` inserts stored prompts.
    """

    def __init__(
        self,
        admission: Admission,
        storage: StorageChooser,
        files: InputFiles,
        *,
        keeps_keys: bool,
        prompts: PromptInsertion,
    ) -> None:
        self._admission = admission
        self._storage = storage
        self._files = files
        self._keeps_keys = keeps_keys
        self._prompts = prompts

    async def accept(self, client_request: ClientRequest) -> Run:
        """Validates, routes and plans a request, without sending anything.

        Raises InvalidRequest, UnknownModel, NotFound, FileStorageUnavailable and StoreUnavailable.
        """
        if _PROMPT in client_request.body:
            client_request = await self._prompts.insert(client_request)
        request = await self._admission.admit(client_request)
        if client_request.has_key and not self._keeps_key_of(request):
            request.losses = [*request.losses, KEY_IGNORED]
        facts = request.facts
        if facts.context.is_compacted:
            request = await fill_compaction_threshold(request)
        if facts.tools.hosted or request.target.adds_tools:
            request.tool_host = await self._admission.open_tool_host(
                request.endpoint, request.facts, request.route, request.principal
            )
        storage = self._storage.choose(request, client_request.connection_items, has_key=client_request.has_key)
        return await self._files.plan(request, client_request.weight, storage.accept)

    def _keeps_key_of(self, request: AdmittedRequest) -> bool:
        """Whether repeated requests with the same key follow the response to this one."""
        form = request.endpoint.storage
        allows_jobs = isinstance(form, ResponseForm) and form.allows_jobs
        return self._keeps_keys and allows_jobs and request.facts.state.is_stored
