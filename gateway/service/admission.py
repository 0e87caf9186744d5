"""The first steps of every request: validation, its route, log fields, defaults, facts, and the host of its tools."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol

from gateway.config.settings import ServerSettings
from gateway.http.auth import Principal
from gateway.http.large_bodies import LargeBodyPool
from gateway.logs import add_fields
from gateway.planning.admitted_request import NO_NAMES, AdmittedRequest, ThreadRun
from gateway.planning.plan import find_tool_host
from gateway.planning.resolver import Resolver, Route, Target
from gateway.replies.endpoints import Endpoint, ReplyIdentity, RequestForm
from gateway.sealing.sealer import Sealer
from gateway.service.served_models import ServedModels
from gateway.tools.exchange_factory import load_tool_library
from gateway.tools.host import ToolHost
from providers.new_id import new_id
from translation.errors import InvalidRequest
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.request_facts import RequestFacts

_MAX_FIELDS: Final = 1000
"""The most fields at the top level of a body. APIs have a few dozen, and each unknown one becomes a loss."""

_NORMALIZED_WEIGHT: Final = 2
"""The weight factor of bodies that are normalized first."""


class AdaptedRequest(NamedTuple):
    """A request of a small API, in the dialect in which it is served."""

    body: Json
    """A validated body, with the request defaults of the model."""
    route: Route
    param_names: Mapping[str, str] = {}
    """Maps parameters of `body` to the parameters by which the client set them, where the names differ."""
    losses: Sequence[Loss] = ()
    """The losses of adapting it, in the client's parameter names."""
    thread: ThreadRun | None = None
    """The thread that the request continues; None if it continues none."""


class RequestAdapter(Protocol):
    """Adapts requests of a small API, such as `/generate`, to the dialect in which they are served."""

    def choose_default_model(self, allowed: Sequence[str]) -> str:
        """Returns the model for a request without one. A pattern of `allowed` matches it. Raises InvalidRequest."""
        ...

    def adapt(self, body: Json, route: Route) -> AdaptedRequest:
        """Returns a validated request in its dialect. Raises InvalidRequest with the client's parameter names."""
        ...


@dataclass(slots=True, eq=False)
class ClientRequest:
    """A request as it comes from a client: its body is JSON, and nothing else is known of it."""

    endpoint: Endpoint
    principal: Principal
    body: Json
    strict: bool = False
    """Whether the client wants a request with losses refused."""
    weight: int = 0
    """The weight of the body (`weigh_body`): heavy bodies are processed in threads."""
    adapter: RequestAdapter | None = None
    """Turns requests of a small API into requests of the endpoint's dialect."""
    has_key: bool = False
    """Whether the request has an idempotency key. A stored response is then a job."""
    connection_items: Mapping[str, Sequence[Item]] | None = None
    """Maps response ids to all items up to and including that response, for responses that exist only on this
    connection; None if the connection keeps none."""
    headers: Mapping[bytes, bytes] = field(default_factory=dict)
    """The headers of the request, by their names in lower case."""
    prompt: Json | None = None
    """The stored prompt that is in the body, as the reply echoes it; None without one."""


class Admission:
    """Admits requests of every endpoint. There is one per configuration. `tool_host` runs tools."""

    def __init__(
        self,
        resolver: Resolver,
        sealer: Sealer,
        server: ServerSettings,
        models: ServedModels,
        pool: LargeBodyPool,
        tool_host: ToolHost,
    ) -> None:
        self._resolver = resolver
        self._models = models
        self._sealer = sealer
        self._pool = pool
        self._tool_host = tool_host
        self._clock: Callable[[], float] = time.time
        self._max_items = server.max_items
        self._max_tools = server.max_tools

    async def admit(self, client_request: ClientRequest) -> AdmittedRequest:
        """Returns a request once it is valid and its route is known to serve it.

        Raises InvalidRequest and UnknownModel.
        """
        weight = client_request.weight
        if client_request.endpoint.request.normalize is not None:
            weight *= _NORMALIZED_WEIGHT
        if weight <= self._pool.free_weight:
            admitted = self._admit(client_request)
        else:
            admitted = await self._pool.call_weighed(weight, self._admit, client_request)
        if admitted.route.must_be_listed:
            await self._models.require_listed(admitted.route, client_request.principal.models)
        return admitted

    async def open_tool_host(
        self, endpoint: Endpoint, facts: RequestFacts, route: Route, principal: Principal
    ) -> ToolHost | None:
        """Returns the host of the tools of a request that its upstream does not run, ready to run them; None if there
        are none.

        Raises Unrepresentable for tools that nobody can run.
        """
        if not (facts.tools.hosted or route.target.adds_tools):
            return None
        prepared = await self._tool_host.prepare(facts.tools.hosted, route.target.added_tools, principal.owner)
        if route.sharing is not None:
            await load_tool_library()  # each target that is planned may need it
            return self._find_shared_host(endpoint, facts, route, principal, prepared)
        host = self.find_tool_host(endpoint, facts, route.target, principal, prepared)
        if host is not None:
            await load_tool_library()
        return host

    def _find_shared_host(
        self, endpoint: Endpoint, facts: RequestFacts, route: Route, principal: Principal, prepared: ToolHost
    ) -> ToolHost | None:
        """Returns the host of the tools for the first target that does not run them itself; None if each that can serve
        the request does. Each plan finds its own again.

        Raises the refusal of the first target if none can serve the request.
        """
        refusals: list[InvalidRequest] = []
        for target in route.targets:
            try:
                if (host := self.find_tool_host(endpoint, facts, target, principal, prepared)) is not None:
                    return host
            except InvalidRequest as error:
                refusals.append(error)
        if len(refusals) == len(route.targets):
            raise refusals[0]
        return None

    def find_tool_host(
        self,
        endpoint: Endpoint,
        facts: RequestFacts,
        target: Target,
        principal: Principal,
        known: ToolHost | None,
    ) -> ToolHost | None:
        """Returns the host of the tools of a request that this target does not run; None if there are none.

        `known` is its host for another target, which knows what its tools name. Raises Unrepresentable for tools that
        nobody can run.
        """
        whole = (known and known.prepared) or self._tool_host
        host = find_tool_host(endpoint, facts, target, whole, principal.mcp_servers)
        return None if host is None else host.serve_owner(principal.owner)

    def resolve(self, endpoint: Endpoint, model: str, allowed: Sequence[str], *, owner: str) -> Route:
        """Returns the route of a model, and adds it to the log fields of the request. Raises UnknownModel."""
        seal = (self._sealer, owner) if endpoint.reply.has_seals else None
        route = self._resolver.resolve(model, allowed, seal)
        add_fields(route.log_fields)
        return route

    def _admit(self, client_request: ClientRequest) -> AdmittedRequest:
        endpoint, principal, body = client_request.endpoint, client_request.principal, client_request.body
        form, adapter = endpoint.request, client_request.adapter
        if form.normalize is not None:
            body = form.normalize(body)
        name = endpoint.param_names.overflow_input
        items = body.get(name)
        if len(body) > _MAX_FIELDS or (isinstance(items, list) and len(items) > self._max_items):
            raise self._build_refusal_of_length(name, body)
        if form.tools_param in body:
            body = self._check_tools(form, body)
        refusal: InvalidRequest | None = None
        try:
            form.validate(body)
        except InvalidRequest as error:
            refusal = require_known_part(form, body, error)
        model = body.get("model")
        if not model and adapter is not None:
            model = adapter.choose_default_model(principal.models)
        if not model:
            raise InvalidRequest("model is required", param="model", code="missing_required_parameter")
        route = self.resolve(endpoint, model, principal.models, owner=principal.owner)
        if adapter is not None:
            return self._admit_adapted(client_request, adapter.adapt(body, route))
        hides_thinking = False
        if route.request_defaults:
            hides_thinking = form.expects_thinking is not None and not form.expects_thinking(body)
            body = form.add_defaults(body, route.request_defaults)
            refusal = find_refusal(form.validate_merged or form.validate, form, body)
        facts = form.read_facts(body)
        if not form.own_params.isdisjoint(body):
            body = form.remove_own_params(body)
        identity = ReplyIdentity(new_id(endpoint.id_prefix), int(self._clock()), route.name, client_request.prompt)
        return AdmittedRequest(
            endpoint,
            body,
            facts,
            route,
            route.target,
            principal,
            identity,
            client_request.strict,
            NO_NAMES,
            hides_thinking=hides_thinking,
            refusal=refusal,
            headers=client_request.headers,
        )

    def _admit_adapted(self, client_request: ClientRequest, adapted: AdaptedRequest) -> AdmittedRequest:
        endpoint, route, thread = client_request.endpoint, adapted.route, adapted.thread
        facts = endpoint.request.read_facts(adapted.body)
        if thread is not None:
            facts = replace(facts, tools=replace(facts.tools, takes_input=True))
        response_id = new_id(endpoint.id_prefix) if thread is None else thread.response_id
        return AdmittedRequest(
            endpoint,
            adapted.body,
            facts,
            route,
            route.target,
            client_request.principal,
            ReplyIdentity(response_id, int(self._clock()), route.name),
            client_request.strict,
            adapted.param_names,
            adapted.losses,
            thread,
            headers=client_request.headers,
        )

    def _build_refusal_of_length(self, name: str, body: Json) -> InvalidRequest:
        """Returns the error for a body with too many fields, or whose list of this name is too long to be served."""
        if len(body) > _MAX_FIELDS:
            return InvalidRequest(f"The body has {len(body)} fields: at most {_MAX_FIELDS} are allowed.", param=None)
        return _build_length_error(name, len(body[name]), self._max_items, "max_items")

    def _check_tools(self, form: RequestForm, body: Json) -> Json:
        """Returns a body with tools that are not too many, and shared with other requests if they have the same ones.

        Raises InvalidRequest.
        """
        if (count := form.count_tools(body)) > self._max_tools:
            raise _build_length_error(form.tools_param, count, self._max_tools, "max_tools")
        return body if form.share_tools is None else form.share_tools(body)


def find_refusal(validate: Callable[[Json], None], form: RequestForm, body: Json) -> InvalidRequest | None:
    """Returns why a body is not valid, if an upstream with the same API may still take it; None for a valid body.

    Raises InvalidRequest if no upstream can take it.
    """
    try:
        validate(body)
    except InvalidRequest as error:
        return require_known_part(form, body, error)
    return None


def require_known_part(form: RequestForm, body: Json, error: InvalidRequest) -> InvalidRequest:
    """Returns the error of a body that is not valid, if an upstream with the same API may still take it. Else raises
    it."""
    if form.keep_known is None:
        raise error
    try:
        form.keep_known(body)
    except InvalidRequest:
        raise error from None
    return error


@contextmanager
def rename_params_in_errors(param_names: Mapping[str, str]) -> Iterator[None]:
    """Changes an InvalidRequest that the block raises to the parameter's name in the client's request."""
    try:
        yield
    except InvalidRequest as error:
        raise rename_param_of(error, param_names) from None


def rename_param_of(error: InvalidRequest, param_names: Mapping[str, str]) -> InvalidRequest:
    """Returns the error with the parameter's name in the client's request."""
    client_name = param_names.get(name := error.param or "")
    if client_name is None:
        return error
    return InvalidRequest(error.message.replace(name, client_name), param=client_name, code=error.code)


def _build_length_error(name: str, length: int, limit: int, key: str) -> InvalidRequest:
    return InvalidRequest(
        f"Invalid '{name}': array too long. Expected an array with maximum length {limit}, but got an array with "
        f"length {length} instead (server.{key}).",
        param=name,
        code="array_above_max_length",
    )
