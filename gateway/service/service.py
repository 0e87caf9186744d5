"""The object that routes call: authenticates a request, reads its body, accepts it, and builds its reply.

One per server process. It owns the stateless parts (resolver, models, sealer) and the runner of background jobs.
The parts that depend on the configuration can be replaced while the server runs.
"""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from dataplane.http_protocol import CLIENT
from dataplane.sharing.fair_turns import NO_OWNER, current_owner
from gateway.config.own_address import describe_address
from gateway.config.settings import Settings
from gateway.errors import NotAdministrator, NotAuthenticated, TooManyRequests
from gateway.files.file_uploads import FileUploads
from gateway.files.stored_files import StoredFiles
from gateway.http.auth import ANONYMOUS, Principal, bind_refused_key
from gateway.http.body import BodyLimits, SizedBody, parse_buffered_body, read_json
from gateway.http.error_forms import name_upstreams
from gateway.http.forms.form_body import FormPace
from gateway.http.guard import DrainState, RequestGuard
from gateway.http.headers import headers_of
from gateway.http.json_reply import build_json_reply
from gateway.http.large_bodies import LargeBodyPool
from gateway.http.owner_counts import OwnerCounts
from gateway.http.query_params import read_single_value
from gateway.logs import bind_client
from gateway.relayed_paths.form_upload import FormLimits
from gateway.relayed_paths.relays import EMBEDDINGS, RelayedPath
from gateway.replies.endpoints import Endpoint, ResponseForm
from gateway.replies.event_stream import SSE_FRAMING, EventStreamReply, ReplyStream, StreamFraming
from gateway.replies.log_replay import open_log_replay
from gateway.replies.loss_header import render_stored_headers
from gateway.replies.recorder import ReplyRecorder
from gateway.replies.request_figures import RequestWatch
from gateway.sealing.sealer import Sealer, generate_key
from gateway.service.admission import ClientRequest, RequestAdapter
from gateway.service.configuration import Configuration, ConfigurationBuilder
from gateway.service.idempotency.keys import KEY_HEADER
from gateway.service.run import Run
from gateway.service.served_models import ServedModels
from gateway.service.server_state import ServerState, SharedParts, StoredState, StorelessState
from gateway.service.sharing.upstream_watch import run_upstream_watch
from gateway.state.file_records import FileQuota
from gateway.state.store import Store
from gateway.state.values import Job, NewResponse, StoredHeaders
from gateway.tools.operator_servers.servers import OperatorServers
from gateway.upstreams.registry import UpstreamRegistry
from gateway.vector_stores.stored_vector_stores import StoredVectorStores
from providers.base import Provider
from translation.errors import InvalidRequest
from translation.representation.json_types import Json

_MB = 1024 * 1024


class Service:
    """Everything a route may use. There is one per server process.

    `store` is None if the config has no `store.url`: then nothing is stored, and no jobs run. `job_endpoints` are the
    endpoints whose replies may be jobs, by dialect.
    """

    def __init__(
        self,
        settings: Settings,
        providers: Mapping[str, Provider],
        drain: DrainState,
        store: Store | None = None,
        job_endpoints: Mapping[str, Endpoint] | None = None,
        watch: RequestWatch | None = None,
    ) -> None:
        server, sealer = settings.server, _build_sealer(settings, store)
        self.drain = drain
        self.watch = watch or RequestWatch()
        """Keeps the figures of requests."""
        self.configuration_problem: str | None = None
        """The reason why the last attempt to replace the configuration failed; None if it succeeded."""
        self.large_bodies = LargeBodyPool()
        self.upstreams = UpstreamRegistry()
        max_bytes = int(server.max_body_mb * _MB)
        self.body_limits = BodyLimits(max_bytes, server.max_json_depth, server.max_json_values, server.body_s)
        pace = FormPace(server.body_s, server.form_s)
        max_lookahead_bytes = int(server.max_form_lookahead_kb * 1024)
        self._form_limits = FormLimits(max_bytes, max_lookahead_bytes, pace)
        self._keepalive_s = server.keepalive_s
        self._open_requests = OwnerCounts(settings.limits.open_requests, TooManyRequests)
        self.operator_servers = OperatorServers(
            settings.tools.mcp, settings.egress, None if store is None else store.grants, sealer
        )
        self.state: ServerState = (
            StorelessState()
            if store is None
            else StoredState(store, settings, drain, self.operator_servers, pace, lambda: self.current.embedder)
        )
        self._builder = ConfigurationBuilder(
            SharedParts(sealer, self.large_bodies, drain, job_endpoints or {}, self.build_event_stream),
            self.state,
            self.operator_servers,
            self.upstreams,
            self.watch,
        )
        self.use_configuration(settings, providers)

    def use_configuration(self, settings: Settings, providers: Mapping[str, Provider]) -> None:
        """Serves all further requests by these settings. Requests that were accepted keep their providers.

        Only the sections of `gateway/config/checks.py` may differ from the settings before. The caller closes the
        providers that are no longer used, once the previous `provider_hold` is gone. After a failure, nothing has
        changed.
        """
        configuration = self._builder.build(settings, providers)
        addresses = {name: describe_address(config) for name, config in settings.providers.items()}
        limits_servers = settings.auth is not None and settings.auth.limits_servers
        self.operator_servers.use_configuration(settings.tools.mcp, names_others=not limits_servers)
        # Nothing below can fail.
        name_upstreams(addresses)
        self.upstreams.use_settings(settings)
        self.state.use_settings(settings)
        self.current: Configuration = configuration
        self.loaded_at: float = time.time()
        """When the present configuration was loaded, in seconds since 1970."""

    @property
    def settings(self) -> Settings:
        """The present settings."""
        return self.current.settings

    @property
    def models(self) -> ServedModels:
        """The models of the present configuration."""
        return self.current.models

    def accept(self, client_request: ClientRequest) -> Awaitable[Run]:
        """Accepts a request. Raises what `Intake.accept` raises."""
        return self.current.intake.accept(client_request)

    async def serve_create(
        self,
        endpoint: Endpoint,
        scope: Scope,
        receive: Receive,
        adapter: RequestAdapter | None = None,
        path_params: Json | None = None,
    ) -> Response:
        """Returns the reply to a request that a model answers: a response, a completion or a generation.

        The reply is an event stream or JSON, as the body's `stream` says. A background or resumable response is
        submitted as a job. `path_params` are parameters of the body that are in the path. Raises exceptions that
        `gateway/error_replies.py` has rows for, and ClientDisconnected.
        """
        request_headers = headers_of(scope)
        principal = self._authenticate(scope, request_headers)
        if principal is not ANONYMOUS:
            self._count_request(principal, scope)
        sized_body = parse_buffered_body(scope, request_headers, self.body_limits)
        if sized_body is None:
            sized_body = await self._read_json(scope, receive)
        body, _, weight = sized_body
        if endpoint.request.add_header_params is not None:
            body = endpoint.request.add_header_params(body, request_headers)
        if path_params is not None:
            body = {**body, **path_params}
        key = request_headers.get(KEY_HEADER)
        client_request = ClientRequest(
            endpoint,
            principal,
            body,
            is_strict(request_headers),
            weight,
            adapter,
            key is not None,
            None,
            request_headers,
        )
        if key is None:
            accepted = await self.current.intake.accept(client_request)
        else:
            reply = await self._serve_keyed(client_request, key, scope, receive)
            if isinstance(reply, Response):
                return reply
            accepted = reply
        if accepted.job is not None:
            return await self._reply_detached(accepted, accepted.job)
        build_own_headers = endpoint.reply.build_headers
        if accepted.request.facts.streams:
            headers = accepted.build_early_headers()
            return self.build_event_stream(
                accepted.build_stream(),
                headers if build_own_headers is None else headers | build_own_headers(),
                accepted.recorder,
                accepted.late_headers,
                endpoint.reply.stream,
            )
        with RequestGuard(receive, self.drain, scope.get(CLIENT)):
            result = await accepted.produce_reply()
            if endpoint.reply.show_reply is not None:
                result = endpoint.reply.show_reply(accepted.body, result)
            headers = accepted.build_late_headers()
            return build_json_reply(
                result, headers=headers if build_own_headers is None else headers | build_own_headers()
            )

    async def serve_relayed(self, row: RelayedPath, request: Request) -> Response:
        """Returns the reply of a relayed path, as bytes. Raises what `serve_create` raises."""
        principal = self.authenticate(request)
        relays = self.current.relays
        if row.takes_form:
            model = read_single_value(request.query_params, "model")
            return await relays.relay_form(row, principal, model, self._form_limits, request.scope, request.receive)
        body = await self.read_body(request)
        return await relays.relay_json(row, principal, body, request.scope, request.receive)

    async def fetch_embeddings(self, principal: Principal, body: Json, request: Request) -> Json:
        """Returns the reply to a body of `/v1/embeddings`, for an API that translates it.

        Raises what `serve_create` raises.
        """
        return await self.current.relays.fetch_json(EMBEDDINGS, principal, body, request.scope, request.receive)

    async def read_body(self, request: Request) -> Json:
        """Reads a request's body as one JSON object. Raises what `gateway.http.body.read_json` raises."""
        content, _, _ = await self.read_sized_body(request)
        return content

    def read_sized_body(self, request: Request) -> Awaitable[SizedBody]:
        """Reads a request's body as one JSON object, and its size and weight. Raises what `read_body` raises."""
        return self._read_json(request.scope, request.receive)

    def _read_json(self, scope: Scope, receive: Receive) -> Awaitable[SizedBody]:
        return read_json(scope, receive, self.body_limits, self.large_bodies)

    async def serve_log_replay(
        self, owner: str, response_id: str, *, after: int | None, obfuscates: bool = False
    ) -> Response:
        """Returns the event stream of a stored response, replayed from the event log.

        `after` is the sequence number of the last event the client has; None replays from the start. With `obfuscates`
        deltas are padded. Raises NotFound, InvalidRequest and StoreUnavailable.
        """
        replay = await open_log_replay(
            self.require_store(),
            owner,
            response_id,
            after=after,
            max_outage_s=self.settings.background.lease_s,
            obfuscates=obfuscates,
            hold_s=self._keepalive_s,
        )
        return self.build_event_stream(
            replay,
            self.render_stored_headers(replay.headers),
            late_headers=lambda: self.render_stored_headers(replay.headers),
        )

    def build_event_stream(
        self,
        stream: ReplyStream,
        headers: Mapping[str, str],
        recorder: ReplyRecorder | None = None,
        late_headers: Callable[[], Mapping[str, str]] | None = None,
        framing: StreamFraming = SSE_FRAMING,
    ) -> EventStreamReply:
        """Returns the HTTP reply that sends `stream` as server-sent events.

        `recorder` stores the reply before its terminal event is sent. `late_headers` returns headers to add when the
        stream starts.
        """
        return EventStreamReply(stream, self.drain, self._keepalive_s, headers, recorder, late_headers, framing)

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None, None]:
        """Until the block ends, asks upstreams how they are, and, if there is a store, runs background jobs and polls
        for added MCP servers."""
        try:
            async with AsyncExitStack() as running:
                await running.enter_async_context(run_upstream_watch(lambda: self.current.upstream_watch))
                await running.enter_async_context(
                    self.state.run(lambda: self.settings.tools.mcp.admin, self.resume_job)
                )
                yield
        finally:
            await self.operator_servers.aclose()

    def resume_job(self, job: Job) -> Awaitable[Run]:
        """Accepts the request of a stored job again, by the present configuration.

        Raises NotFound without a store, and what `JobIntake.resume_job` raises.
        """
        return self.current.state.resume_job(job)

    async def _serve_keyed(
        self, client_request: ClientRequest, key: bytes, scope: Scope, receive: Receive
    ) -> Response | Run:
        """Serves a request with an idempotency key, which has no effect on replies that cannot be jobs."""
        form = client_request.endpoint.storage
        if not isinstance(form, ResponseForm) or client_request.adapter is not None:
            return await self.accept(client_request)
        return await self.current.state.serve_keyed(client_request, form, key, scope, receive)

    async def _reply_detached(self, accepted: Run, new: NewResponse) -> Response:
        jobs = self.state.require_jobs()
        await jobs.submit(accepted, new)
        if not (new.logged and accepted.streams):
            return build_json_reply(new.response, headers=accepted.build_queued_headers())
        stream = accepted.follow_job(
            jobs.store, max_outage_s=self.settings.background.lease_s, hold_s=self._keepalive_s
        )
        return self.build_event_stream(stream, accepted.build_early_headers(), None, accepted.late_headers)

    def authenticate(self, request: HTTPConnection) -> Principal:
        """Returns the principal of a request or WebSocket, and adds the name of its key to the request's log fields.

        Stored objects belong to the principal's `owner`. Raises NotAuthenticated, and TooManyRequests if
        `limits.open_requests` are open.
        """
        principal = self._authenticate(request.scope, headers_of(request.scope))
        if request.scope["type"] == "http":
            self._count_request(principal, request.scope)
        return principal

    def authenticate_admin(self, request: HTTPConnection) -> Principal:
        """Returns the principal of a request that only administrators may send.

        Raises NotAdministrator, and what `authenticate` raises.
        """
        principal = self.authenticate(request)
        if not principal.is_admin:
            raise NotAdministrator("only a key with `admin: true` in auth.keys of the configuration may do this")
        return principal

    def require_files(self) -> StoredFiles:
        """Returns the files of clients. Raises NotFound if the config has no store."""
        return self.state.require_files()

    def require_uploads(self) -> FileUploads:
        """Returns the uploads of clients. Raises NotFound if the config has no store."""
        return self.state.require_uploads()

    async def remove_unused_blobs(self, owner: str) -> None:
        """Removes the bytes of an owner that no file has any more. Raises StoreUnavailable."""
        await self.state.require_blob_keeper().remove_unused(owner)

    def require_vector_stores(self) -> StoredVectorStores:
        """Returns the vector stores of clients. Raises NotFound if the config has no store."""
        return self.state.require_vector_stores()

    def _count_request(self, principal: Principal, scope: Scope) -> None:
        """Counts a request of its owner until it ends. Raises TooManyRequests."""
        limits = principal.limits
        self._open_requests.add_until_end(principal.owner, scope, None if limits is None else limits.open_requests)

    def find_file_quota(self, principal: Principal) -> FileQuota:
        """Returns what the owner of a request may store as files."""
        limits = principal.limits or self.settings.limits
        return FileQuota(limits.files, int(limits.files_mb * 1e6))

    def _authenticate(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Principal:
        try:
            principal = self.current.authenticator.authenticate(headers)
        except NotAuthenticated as error:
            bind_refused_key(scope, error.hint)
            raise
        owner = NO_OWNER if principal is ANONYMOUS else principal.owner
        if current_owner.get() != owner:
            current_owner.set(owner)
        bind_client(principal.key_name)
        return principal

    def render_stored_headers(self, stored: StoredHeaders) -> dict[str, str]:
        """Returns the headers that are stored with a reply, without those that the configuration turns off."""
        return render_stored_headers(stored, names_upstream=self.settings.routing.reply_headers)

    def require_store(self) -> Store:
        """Returns the store. Raises NotFound if the config has none."""
        return self.state.require_store()


def _build_sealer(settings: Settings, store: Store | None) -> Sealer:
    """Uses the configured keys and the store's key. With neither, the key is random and lost with the process."""
    keys = settings.sealing.secrets
    if store is not None:
        return Sealer(keys, lambda: store.sealing_key)
    return Sealer(keys or (generate_key(),))


def is_strict(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the client wants a request with losses refused: the header `x-gateway-strict`, false if it is absent.

    Raises InvalidRequest if the header is neither true nor false.
    """
    header = headers.get(b"x-gateway-strict")
    if header is None:
        return False
    value = header.lower()
    if value not in (b"true", b"false"):
        raise InvalidRequest("x-gateway-strict must be true or false", param="x-gateway-strict")
    return value == b"true"
