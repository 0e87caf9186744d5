"""The parts of a service that depend on its configuration: one immutable value, which is built and replaced whole."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gateway.config.settings import Settings
from gateway.http.auth import Authenticator
from gateway.planning.resolver import Resolver
from gateway.relayed_paths.relays import RelayedPaths
from gateway.replies.observers import LOG_OBSERVER, Observer
from gateway.service.admission import Admission
from gateway.service.contexts import ContextService
from gateway.service.intake import Intake, PromptInsertion
from gateway.service.provider_lifetimes import EmbeddedEngines, ProviderHold
from gateway.service.reachability import UpstreamReachability
from gateway.service.run_factory import RunFactory
from gateway.service.served_models import ServedModels
from gateway.service.server_state import ConfiguredState, ServerState, SharedParts
from gateway.service.sharing.routing_reports import RoutingReporter
from gateway.service.sharing.upstream_watch import UpstreamWatch
from gateway.tools.host import KindParts, ToolHost, build_egress, build_kinds
from gateway.tools.operator_servers.servers import OperatorServers
from gateway.upstreams.registry import UpstreamRegistry
from gateway.vector_stores.embedder import ProviderEmbedder
from providers.base import Provider


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
    state: ConfiguredState
    """What is done with the store, or without one."""
    embedder: ProviderEmbedder | None
    """Makes the vectors of vector stores; None if they are searched by words alone."""


class ConfigurationBuilder(NamedTuple):
    """What all configurations of one server process share."""

    shared: SharedParts
    state: ServerState
    operator_servers: OperatorServers
    upstreams: UpstreamRegistry
    """The state of the upstreams that share turns."""
    observer: Observer = LOG_OBSERVER
    """Watches the requests."""

    def build(self, settings: Settings, providers: Mapping[str, Provider]) -> Configuration:
        """Returns the parts that serve requests by these settings. It changes nothing."""
        resolver, provider_hold = Resolver(settings, providers, self.upstreams), ProviderHold()
        models = ServedModels(resolver, provider_hold)
        egress, shared, has_store = build_egress(settings.egress), self.shared, self.state.has_store
        embeddings = settings.tools.file_search.embeddings
        embedder = None if embeddings is None else ProviderEmbedder(embeddings, providers, provider_hold)
        tool_host = ToolHost(
            settings.tools.mcp,
            egress,
            self.operator_servers,
            has_store=has_store,
            kinds=build_kinds(
                KindParts(settings.tools, egress, self.state.vector_stores, embedder, self.operator_servers)
            ),
            search=settings.tools.tool_search,
        )
        admission = Admission(resolver, shared.sealer, settings.server, models, shared.large_bodies, tool_host)
        runs = RunFactory(settings, provider_hold, self.observer, admission.find_tool_host, shared.large_bodies)
        state = self.state.configure(settings, shared, admission, runs, lambda request: intake.accept(request))
        prompts = PromptInsertion(None if state.parts is None else state.parts.store.prompts, shared.large_bodies)
        intake = Intake(admission, state.chooser, state.input_files, keeps_keys=has_store, prompts=prompts)
        return Configuration(
            settings=settings,
            authenticator=Authenticator(settings.auth, settings.limits),
            models=models,
            engines=EmbeddedEngines(providers.values()),
            intake=intake,
            contexts=ContextService(
                admission,
                shared.large_bodies,
                state.context_history,
                state.input_files,
                prompts,
                provider_hold,
                self.observer,
            ),
            relays=RelayedPaths(
                models, shared.drain, provider_hold, self.observer, names_upstream=settings.routing.reply_headers
            ),
            reachability=UpstreamReachability(settings),
            routing=RoutingReporter(settings, resolver, admission, self.upstreams),
            upstream_watch=UpstreamWatch(settings, resolver, self.upstreams),
            provider_hold=provider_hold,
            state=state,
            embedder=embedder,
        )
