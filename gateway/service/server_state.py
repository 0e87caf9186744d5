"""What a server does with its store, or without one. The choice is made once, when the server starts."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Final, NamedTuple, Protocol, TypeAlias

from starlette.responses import Response
from starlette.types import Receive, Scope

from gateway.blobs.open_blobs import open_blobs
from gateway.config.settings import Settings
from gateway.config.tool_settings import AdminServerSettings
from gateway.errors import NotFound
from gateway.files.blob_keeper import BlobKeeper
from gateway.files.file_contents import FileContents
from gateway.files.file_uploads import FileUploads, UploadRules
from gateway.files.stored_files import FileRules, StoredFiles
from gateway.histograms import Histogram
from gateway.http.forms.form_body import FormPace
from gateway.http.guard import DrainState
from gateway.http.large_bodies import LargeBodyPool
from gateway.jobs.job_credentials import JobCredentials
from gateway.planning.continued_history import HistorySource
from gateway.replies.endpoints import Endpoint, ResponseForm
from gateway.replies.event_stream import EventStreamReply
from gateway.retrieval.embedding import FindEmbedder
from gateway.sealing.sealer import Sealer
from gateway.service.admission import Admission, ClientRequest
from gateway.service.contexts import ContextHistory, NoContextHistory, StoredContextHistory
from gateway.service.idempotency.keys import read_keyed_request
from gateway.service.idempotency.requests import IdempotentRequests
from gateway.service.intake import InputFiles, StoredInputFiles, UpstreamFiles
from gateway.service.jobs import JobIntake, StoredJobs
from gateway.service.run import Run
from gateway.service.run_factory import RunFactory
from gateway.service.storage import StorageChooser, StorageParts, StoredChooser, StorelessChooser
from gateway.state.store import Store
from gateway.state.values import Job
from gateway.state.vector_records import VectorStores
from gateway.tools.approvals import ApprovalFactory
from gateway.tools.input_seal import InputSeal
from gateway.tools.operator_servers.added_servers import AddedServers
from gateway.tools.operator_servers.servers import OperatorServers
from gateway.tools.response_journal import JournalFactory
from gateway.vector_stores.indexer import Indexer
from gateway.vector_stores.stored_vector_stores import StoredVectorStores
from gateway.vector_stores.vector_renewal import VectorRenewal
from translation.representation.json_types import Json

_MB: Final = 1024 * 1024

_HOLD_MARGIN_S: Final = 3600.0
"""How much longer a blob is held for its request than a form may take: parts are joined too, and clocks differ."""

_NO_STORE: Final = "nothing is stored here: the server's config has no store.url"

ResumeJob: TypeAlias = Callable[[Job], Awaitable[Run]]
"""Accepts the request of a stored job again."""

AcceptRequest: TypeAlias = Callable[[ClientRequest], Awaitable[Run]]


class SharedParts(NamedTuple):
    """What all configurations of one server process share."""

    sealer: Sealer
    large_bodies: LargeBodyPool
    drain: DrainState
    job_endpoints: Mapping[str, Endpoint]
    """The endpoints whose replies may be jobs, by dialect."""
    build_event_stream: Callable[..., EventStreamReply]


class ServeKeyed(Protocol):
    """Serves a request with an idempotency key, whose replies the form describes.

    Returns its reply, or the accepted request if its response is not stored.
    """

    async def __call__(
        self, client_request: ClientRequest, form: ResponseForm, header: bytes, scope: Scope, receive: Receive
    ) -> Response | Run: ...


class ConfiguredState(NamedTuple):
    """What one configuration does with the store, or without one."""

    chooser: StorageChooser
    context_history: ContextHistory
    serve_keyed: ServeKeyed
    resume_job: ResumeJob
    input_files: InputFiles
    parts: StorageParts | None
    """What storing replies takes, for APIs that store more than their replies; None if nothing is stored."""


class ServerState(Protocol):
    """What of a server depends on whether it has a store."""

    @property
    def has_store(self) -> bool: ...
    @property
    def degraded_reason(self) -> str | None:
        """Why nothing can be stored at present; None if all is well."""
        ...

    @property
    def times(self) -> Mapping[str, Histogram]:
        """The times of the operations of the store."""
        ...

    @property
    def vector_stores(self) -> VectorStores | None:
        """What searches of models are run over; None without a store."""
        ...

    def require_store(self) -> Store:
        """Returns the store. Raises NotFound if there is none."""
        ...

    def require_added_servers(self) -> AddedServers:
        """Returns the MCP servers that were added over the API. Raises NotFound without a store."""
        ...

    def require_files(self) -> StoredFiles:
        """Returns the files of clients. Raises NotFound without a store."""
        ...

    def require_vector_stores(self) -> StoredVectorStores:
        """Returns the vector stores of clients. Raises NotFound without a store."""
        ...

    def require_uploads(self) -> FileUploads:
        """Returns the uploads of clients. Raises NotFound without a store."""
        ...

    def require_blob_keeper(self) -> BlobKeeper:
        """Returns what writes and removes the bytes of files. Raises NotFound without a store."""
        ...

    def use_settings(self, settings: Settings) -> None:
        """Serves all further requests by these settings, of which only sections that may be reloaded differ."""
        ...

    async def require_vectors(self) -> None:
        """Raises SchemaMismatch if the store cannot compare vectors, and StoreUnavailable. Passes without a store."""
        ...

    def require_jobs(self) -> StoredJobs:
        """Returns the jobs of this process. Raises NotFound without a store."""
        ...

    def describe_added_server(self, label: str) -> Json | None:
        """Returns the settings of an added MCP server without its credentials; None for any other server."""
        ...

    def configure(
        self, settings: Settings, shared: SharedParts, admission: Admission, runs: RunFactory, accept: AcceptRequest
    ) -> ConfiguredState:
        """Returns what a configuration does with the store. It changes nothing."""
        ...

    def run(
        self, get_settings: Callable[[], AdminServerSettings], resume_job: ResumeJob
    ) -> AbstractAsyncContextManager[None]:
        """Runs background jobs, indexes files, and follows the added MCP servers, until the block ends."""
        ...


class StorelessState:
    """A server without a store: nothing is stored, and no jobs run."""

    has_store: Final = False
    degraded_reason: Final = None
    times: Final[Mapping[str, Histogram]] = {}
    vector_stores: Final = None

    def require_store(self) -> Store:
        raise NotFound(_NO_STORE)

    def require_added_servers(self) -> AddedServers:
        raise NotFound(_NO_STORE)

    def require_files(self) -> StoredFiles:
        raise NotFound(_NO_STORE)

    def require_vector_stores(self) -> StoredVectorStores:
        raise NotFound(_NO_STORE)

    def use_settings(self, settings: Settings) -> None:
        pass

    async def require_vectors(self) -> None:
        pass

    def require_uploads(self) -> FileUploads:
        raise NotFound(_NO_STORE)

    def require_blob_keeper(self) -> BlobKeeper:
        raise NotFound(_NO_STORE)

    def require_jobs(self) -> StoredJobs:
        raise NotFound(_NO_STORE)

    def describe_added_server(self, label: str) -> None:
        return None

    def configure(
        self, settings: Settings, shared: SharedParts, admission: Admission, runs: RunFactory, accept: AcceptRequest
    ) -> ConfiguredState:
        async def serve_keyed(
            client_request: ClientRequest, form: ResponseForm, header: bytes, scope: Scope, receive: Receive
        ) -> Run:
            read_keyed_request(header, client_request.body)  # a malformed key is refused in any case
            return await accept(client_request)

        async def resume_job(job: Job) -> Run:
            raise NotFound(_NO_STORE)

        chooser = StorelessChooser(runs, shared.large_bodies)
        return ConfiguredState(chooser, NoContextHistory(), serve_keyed, resume_job, UpstreamFiles(), None)

    @asynccontextmanager
    async def run(
        self, get_settings: Callable[[], AdminServerSettings], resume_job: ResumeJob
    ) -> AsyncGenerator[None, None]:
        yield


class StoredState:
    """A server with a store."""

    has_store: Final = True

    def __init__(
        self,
        store: Store,
        settings: Settings,
        drain: DrainState,
        servers: OperatorServers,
        pace: FormPace,
        find_embedder: FindEmbedder = lambda: None,
    ) -> None:
        """`pace` is how fast uploads have to arrive."""
        self._store = store
        self._added_servers = AddedServers(store.added_servers, settings.sealing.secrets, settings.egress, servers)
        self._jobs = StoredJobs(store, settings, drain)
        blobs, rules = open_blobs(settings), UploadRules.of(settings.files, pace)
        self._keeper = BlobKeeper(store.files, blobs, pace.total_s + _HOLD_MARGIN_S)
        self._files = StoredFiles(store.files, blobs, self._keeper, FileRules(rules.max_file_mb, pace), drain)
        self._uploads = FileUploads(
            store.uploads, store.files, blobs, self._keeper, rules, drain, self._files.open_uploads
        )
        file_search = settings.tools.file_search
        self._indexer = Indexer(
            store.indexing,
            self._files,
            file_search,
            lease_s=settings.background.lease_s,
            find_embedder=find_embedder,
        )
        self._renewal = VectorRenewal(store.embedding, file_search, find_embedder, lease_s=settings.background.lease_s)
        self._vector_stores = StoredVectorStores(
            store.vector_stores, store.files, file_search, self._indexer.notify, find_embedder
        )

    @property
    def degraded_reason(self) -> str | None:
        return self._store.degraded_reason

    @property
    def times(self) -> Mapping[str, Histogram]:
        return self._store.times

    @property
    def vector_stores(self) -> VectorStores:
        return self._store.vector_stores

    def require_store(self) -> Store:
        return self._store

    def require_added_servers(self) -> AddedServers:
        return self._added_servers

    def require_files(self) -> StoredFiles:
        return self._files

    def require_uploads(self) -> FileUploads:
        return self._uploads

    def require_blob_keeper(self) -> BlobKeeper:
        return self._keeper

    def require_vector_stores(self) -> StoredVectorStores:
        return self._vector_stores

    def use_settings(self, settings: Settings) -> None:
        self._indexer.use_settings(settings.tools.file_search)
        self._renewal.use_settings(settings.tools.file_search)
        self._vector_stores.use_settings(settings.tools.file_search)

    async def require_vectors(self) -> None:
        await self._store.require_vectors()

    def require_jobs(self) -> StoredJobs:
        return self._jobs

    def describe_added_server(self, label: str) -> Json | None:
        return self._added_servers.describe_settings(label)

    def configure(
        self, settings: Settings, shared: SharedParts, admission: Admission, runs: RunFactory, accept: AcceptRequest
    ) -> ConfiguredState:
        store = self._store
        parts = self._build_storage_parts(settings, shared.sealer)
        input_files = StoredInputFiles(FileContents(self._files, int(settings.server.max_body_mb * _MB)))
        keyed = IdempotentRequests(
            settings,
            store,
            shared.large_bodies,
            shared.drain,
            accept,
            self._jobs.submit,
            shared.build_event_stream,
        )
        return ConfiguredState(
            StoredChooser(runs, shared.large_bodies, parts, admission.open_tool_host),
            StoredContextHistory(HistorySource(store.history, None, parts.approvals)),
            keyed.serve,
            JobIntake(admission, runs, parts, shared.job_endpoints, input_files).resume_job,
            input_files,
            parts,
        )

    def _build_storage_parts(self, settings: Settings, sealer: Sealer) -> StorageParts:
        store, lease = self._store, self._jobs.runner
        return StorageParts(
            store,
            lease,
            JournalFactory(store, lease, max_outage_s=settings.background.lease_s),
            ApprovalFactory(store.approvals, InputSeal(sealer), ttl_days=settings.tools.mcp.approval_days),
            JobCredentials(settings.sealing.secrets),
            settings.store.begin_delay_ms / 1000,
            settings.store.on_failure == "serve_unstored",
        )

    @asynccontextmanager
    async def run(
        self, get_settings: Callable[[], AdminServerSettings], resume_job: ResumeJob
    ) -> AsyncGenerator[None, None]:
        async with AsyncExitStack() as running:
            await running.enter_async_context(self._added_servers.follow(get_settings))
            await running.enter_async_context(self._indexer.lifespan())
            await running.enter_async_context(self._renewal.lifespan())
            await running.enter_async_context(self._jobs.runner.lifespan(resume_job))
            yield
