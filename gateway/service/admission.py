"""The first steps of every request: validation, the route, the log fields, and the model's request defaults."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from gateway.config.settings import ServerSettings
from gateway.http.auth import Principal
from gateway.logs import bind_fields
from gateway.planning.resolver import Resolver, Route
from gateway.replies.endpoints import Endpoint
from gateway.sealing.sealer import Sealer
from gateway.service.catalogue import Catalogue
from gateway.state.values import ThreadTurn
from translation.errors import InvalidRequest
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss

_MAX_LOGGED_CHARS = 200

_TOOL_EVENTS, _ELICITATION = "tool_events", "elicitation"
"""Parameters of the Responses API that are for the gateway alone. They are neither forwarded nor echoed."""

_MAX_FIELDS = 1000
"""The most fields at the top level of a body. APIs have a few dozen, and each unknown one becomes a loss."""


class ThreadRun(NamedTuple):
    """A request as the next run of a thread. Its response gets the id `response_id`, which is known before it runs."""

    response_id: str
    history: Sequence[Item]
    turn: ThreadTurn


class AdmittedRequest(NamedTuple):
    """A valid request and its route. Its history has not been loaded, and it has not been planned."""

    body: Json
    """The body in the endpoint's dialect, with the request defaults of the model."""
    route: Route
    param_names: Mapping[str, str] = {}
    """Maps parameters of `body` to the parameters by which the client set them, where the names differ."""
    losses: Sequence[Loss] = ()
    """The losses from before the request was planned, in the client's parameter names."""
    thread: ThreadRun | None = None
    """The thread that the request continues, whose items are its history; None if the request names its history."""
    reports_tools: bool = False
    """Whether the client asked for events about the tools that the gateway runs."""
    takes_input: bool = False
    """Whether the client can give input that calls of tools request."""
    hides_thinking: bool = False
    """Whether only a default of the model requests thinking, so that the client does not expect any."""

    @contextmanager
    def rename_params_in_errors(self) -> Iterator[None]:
        """Changes an InvalidRequest that the block raises to the parameter's name in the client's request."""
        try:
            yield
        except InvalidRequest as error:
            client_name = self.param_names.get(name := error.param or "")
            if client_name is None:
                raise
            message = error.message.replace(name, client_name)
            raise InvalidRequest(message, param=client_name, code=error.code) from None

    def rename_losses(self, losses: Sequence[Loss]) -> Sequence[Loss]:
        """Returns the plan's losses in the client's parameter names, followed by the losses from before the plan."""
        if not (self.param_names or self.losses):
            return losses
        return [*(loss._replace(param=self.param_names.get(loss.param, loss.param)) for loss in losses), *self.losses]


class RequestAdapter(Protocol):
    """Adapts requests of a small API, such as `/generate`, to the dialect in which they are served."""

    def choose_default_model(self, allowed: Sequence[str]) -> str:
        """Returns the model for a request without one. A pattern of `allowed` matches it. Raises InvalidRequest."""
        ...

    def adapt(self, body: Json, route: Route) -> AdmittedRequest:
        """Returns a validated request in its dialect. Raises InvalidRequest with the client's parameter names."""
        ...


class Admission:
    """Admits requests of every endpoint. There is one per server process."""

    def __init__(self, resolver: Resolver, sealer: Sealer, server: ServerSettings, catalogue: Catalogue) -> None:
        self._resolver = resolver
        self._catalogue = catalogue
        self._sealer = sealer
        self._max_tools = server.max_tools
        self._max_lengths = (
            ("input", server.max_items, "max_items"),
            ("messages", server.max_items, "max_items"),
            ("contents", server.max_items, "max_items"),
            ("tools", server.max_tools, "max_tools"),
        )

    def admit(
        self, endpoint: Endpoint, principal: Principal, body: Json, adapter: RequestAdapter | None = None
    ) -> AdmittedRequest:
        """Validates a body, finds its route, and applies the request defaults of the model.

        With an `adapter`, the body has the form of the adapter's API. Raises InvalidRequest and UnknownModel.
        """
        if endpoint.normalize is not None:
            body = endpoint.normalize(body)
        self._check_lengths(body)
        if endpoint.count_tools is not None and (tool_count := endpoint.count_tools(body)) > self._max_tools:
            raise _build_length_error("tools", tool_count, self._max_tools, "max_tools")
        endpoint.validate(body)
        model = body.get("model")
        if not model and adapter is not None:
            model = adapter.choose_default_model(principal.models)
        if not model:
            raise InvalidRequest("model is required", param="model", code="missing_required_parameter")
        route = self.resolve(endpoint, model, principal.models, owner=principal.name)
        if adapter is not None:
            return adapter.adapt(body, route)
        hides_thinking = False
        if route.request_defaults:
            hides_thinking = endpoint.dialect == "messages" and body.get("thinking") is None
            body = endpoint.add_defaults(body, route.request_defaults)
            (endpoint.validate_merged or endpoint.validate)(body)
        if endpoint.dialect == "responses" and (_TOOL_EVENTS in body or _ELICITATION in body):
            reports_tools, takes_input = bool(body.get(_TOOL_EVENTS)), bool(body.get(_ELICITATION))
            body = {name: value for name, value in body.items() if name not in (_TOOL_EVENTS, _ELICITATION)}
            return AdmittedRequest(body, route, reports_tools=reports_tools, takes_input=takes_input)
        return AdmittedRequest(body, route, hides_thinking=hides_thinking)

    def _check_lengths(self, body: Json) -> None:
        """Raises InvalidRequest for a list that is too long to be served. Called before anything reads its entries."""
        if len(body) > _MAX_FIELDS:
            raise InvalidRequest(f"The body has {len(body)} fields: at most {_MAX_FIELDS} are allowed.", param=None)
        for name, limit, key in self._max_lengths:
            if isinstance(value := body.get(name), list) and len(value) > limit:
                raise _build_length_error(name, len(value), limit, key)

    async def require_listed(self, route: Route, principal: Principal) -> None:
        """Raises UnknownModel if the route's upstream has to list its model, and does not."""
        await self._catalogue.require_listed(route, principal.models)

    def resolve(self, endpoint: Endpoint, model: str, allowed: Sequence[str], *, owner: str) -> Route:
        """Returns the route of a model, and adds it to the log fields of the request. Raises UnknownModel.

        A chat completion has no field for sealed reasoning, so its routes get no seal.
        """
        seal = None if endpoint.dialect == "chat" else (self._sealer, owner)
        route = self._resolver.resolve(model, allowed, seal)
        bind_fields(model=route.name[:_MAX_LOGGED_CHARS], provider=route.provider.name)
        return route


def _build_length_error(name: str, length: int, limit: int, key: str) -> InvalidRequest:
    return InvalidRequest(
        f"Invalid '{name}': array too long. Expected an array with maximum length {limit}, but got an array with "
        f"length {length} instead (server.{key}).",
        param=name,
        code="array_above_max_length",
    )
