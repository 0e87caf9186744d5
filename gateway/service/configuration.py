"""The parts of a service that depend on its configuration: one immutable value, which is built and replaced whole."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gateway.config.settings import Settings
from gateway.http.auth import Authenticator
from gateway.http.guard import DrainState
from gateway.http.large_bodies import LargeBodyPool
from gateway.jobs.job_credentials import JobCredentials
from gateway.planning.resolver import Resolver
from gateway.relayed_paths.relays import RelayedPaths
from gateway.replies.endpoints import Endpoint
from gateway.replies.event_stream import EventStreamReply
from gateway.replies.observers import LOG_OBSERVER, Observer
from gateway.sealing.sealer import Sealer
from gateway.service.admission import Admission
from gateway.service.contexts import ContextService
from gateway.service.idempotency.requests import IdempotentRequests
from gateway.service.intake import Intake
from gateway.service.jobs import JobIntake, StoredJobs
from gateway.service.provider_lifetimes import EmbeddedEngines, ProviderHold
from gateway.service.reachability import UpstreamReachability
from gateway.service.run_factory import RunFactory
from gateway.service.served_models import ServedModels
from gateway.service.sharing.routing_reports import RoutingReporter
from gateway.service.sharing.upstream_watch import UpstreamWatch
from gateway.service.storage import HistorySource, StorageChooser, StorageParts
from gateway.state.store import Store
from gateway.tools.approvals import ApprovalFactory
from gateway.tools.host import ToolHost, build_egress, build_kinds
from gateway.tools.input_seal import InputSeal
from gateway.tools.operator_servers.servers import OperatorServers
from gateway.tools.response_journal import JournalFactory
from gateway.upstreams.registry import UpstreamRegistry
from providers.base import Provider


class StoredParts(NamedTuple):
    """The parts that only a server with a store has."""

    store: Store
    approvals: ApprovalFactory
    job_intake: JobIntake
    idempotent_requests: IdempotentRequests


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What serves requests by one configuration. Requests that it has accepted keep its providers."""

    settings: Settings
    authenticator: Authenticator
    models: ServedModels
    engines: EmbeddedEngines
    intake: Intake
    contexts: ContextService
    relays: RelayedPaths
    reachability: UpstreamReachability
    routing: RoutingReporter
    upstream_watch: UpstreamWatch
    provider_hold: ProviderHold
    """Keeps the providers open as long as a request uses them."""
    stored: StoredParts | None
    """None if nothing is stored."""


class ConfigurationBuilder(NamedTuple):
    """What all configurations of one server process share."""

    sealer: Sealer
    large_bodies: LargeBodyPool
    drain: DrainState
    operator_servers: OperatorServers
    jobs: StoredJobs | None
    """None if nothing is stored."""
    job_endpoints: Mapping[str, Endpoint]
    """The endpoints whose replies may be jobs, by dialect."""
    build_event_stream: Callable[..., EventStreamReply]
    upstreams: UpstreamRegistry
    """The state of the upstreams that share turns."""
    observer: Observer = LOG_OBSERVER
    """Watches the requests."""

    def build(self, settings: Settings, providers: Mapping[str, Provider]) -> Configuration:
        """Returns the parts that serve requests by these settings. It changes nothing."""
        resolver, provider_hold = Resolver(settings, providers, self.upstreams), ProviderHold()
        models = ServedModels(resolver, provider_hold)
        egress, has_store = build_egress(settings.egress), self.jobs is not None
        tool_host = ToolHost(
            settings.tools.mcp, egress, self.operator_servers, has_store=has_store, kinds=build_kinds(settings.tools)
        )
        admission = Admission(resolver, self.sealer, settings.server, models, self.large_bodies, tool_host)
        runs = RunFactory(settings, provider_hold, self.observer, admission.find_tool_host, self.large_bodies)
        parts = None if self.jobs is None else self._build_storage_parts(settings, self.jobs)
        intake = Intake(
            admission, StorageChooser(runs, self.large_bodies, parts, admission.add_tool_host), keeps_keys=has_store
        )
        history = None if parts is None else HistorySource(parts.store.history, None, parts.approvals)
        stored = None
        if parts is not None and self.jobs is not None:
            stored = StoredParts(
                parts.store,
                parts.approvals,
                JobIntake(admission, runs, parts, self.job_endpoints),
                IdempotentRequests(
                    settings,
                    parts.store,
                    self.large_bodies,
                    self.drain,
                    intake.accept,
                    self.jobs.submit,
                    self.build_event_stream,
                ),
            )
        return Configuration(
            settings=settings,
            authenticator=Authenticator(settings.auth),
            models=models,
            engines=EmbeddedEngines(providers.values()),
            intake=intake,
            contexts=ContextService(admission, self.large_bodies, history, provider_hold),
            relays=RelayedPaths(models, self.drain, provider_hold, names_upstream=settings.routing.reply_headers),
            reachability=UpstreamReachability(settings),
            routing=RoutingReporter(settings, resolver, admission, self.upstreams),
            upstream_watch=UpstreamWatch(settings, resolver, self.upstreams),
            provider_hold=provider_hold,
            stored=stored,
        )

    def _build_storage_parts(self, settings: Settings, jobs: StoredJobs) -> StorageParts:
        store, ttl_days = jobs.store, settings.tools.mcp.approval_days
        return StorageParts(
            store,
            jobs.runner,
            JournalFactory(store, jobs.runner, max_outage_s=settings.background.lease_s),
            ApprovalFactory(store.approvals, InputSeal(self.sealer), ttl_days=ttl_days),
            JobCredentials(settings.sealing.secrets),
            settings.store.begin_delay_ms / 1000,
            settings.store.on_failure == "serve_unstored",
        )
