"""The first steps of every request: validation, the route, the log fields, and the model's request defaults."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from gateway.http.auth import Principal
from gateway.logs import bind_fields
from gateway.planning.request_defaults import apply_request_defaults
from gateway.planning.resolver import Resolver, Route
from gateway.replies.endpoints import Endpoint
from gateway.sealing.sealer import Sealer
from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.representation.loss import Loss

_MAX_LOGGED_CHARS = 200


class AdmittedRequest(NamedTuple):
    """A valid request and its route. Its history and its plan are still to be found."""

    body: Json
    """The body in the endpoint's dialect, with the request defaults of the model."""
    route: Route
    param_names: Mapping[str, str] = {}
    """Maps parameters of `body` to the parameters by which the client set them, where the names differ."""
    losses: Sequence[Loss] = ()
    """What was lost before the request was planned, in the client's parameter names."""

    @contextmanager
    def renaming_params(self) -> Iterator[None]:
        """Raises an InvalidRequest of the block with the parameter's name in the client's request."""
        try:
            yield
        except InvalidRequest as error:
            name = self.param_names.get(chat_name := error.param or "")
            if name is None:
                raise
            raise InvalidRequest(error.message.replace(chat_name, name), param=name, code=error.code) from None

    def rename_losses(self, losses: Sequence[Loss]) -> Sequence[Loss]:
        """Returns losses of the plan in the client's parameter names, with those from before it."""
        if not (self.param_names or self.losses):
            return losses
        return [*(loss._replace(param=self.param_names.get(loss.param, loss.param)) for loss in losses), *self.losses]


class RequestAdapter(Protocol):
    """Turns requests of a small API into requests of the dialect in which they are served."""

    def default_model(self, allowed: Sequence[str]) -> str:
        """Returns the model of a request that names none. A pattern of `allowed` matches it. Raises InvalidRequest."""
        ...

    def adapt(self, body: Json, route: Route) -> AdmittedRequest:
        """Returns a validated request in its dialect. Raises InvalidRequest with the client's parameter names."""
        ...


class Admission:
    """Admits requests of every endpoint. There is one per server process."""

    def __init__(self, resolver: Resolver, sealer: Sealer) -> None:
        self._resolver = resolver
        self._sealer = sealer

    def admit(
        self, endpoint: Endpoint, principal: Principal, body: Json, adapter: RequestAdapter | None = None
    ) -> AdmittedRequest:
        """Validates a body and finds its route. Raises InvalidRequest and UnknownModel."""
        endpoint.validate(body)
        model = body.get("model")
        if not model and adapter is not None:
            model = adapter.default_model(principal.models)
        if not model:
            raise InvalidRequest("model is required", param="model", code="missing_required_parameter")
        route = self.resolve(endpoint, model, principal.models, owner=principal.name)
        if adapter is not None:
            return adapter.adapt(body, route)
        if route.request_defaults:
            body = apply_request_defaults(body, route.request_defaults, endpoint.dialect)
            endpoint.validate(body)
        return AdmittedRequest(body, route)

    def resolve(self, endpoint: Endpoint, model: str, allowed: Sequence[str], *, owner: str) -> Route:
        """Returns the route of a model, and adds it to the log fields of the request. Raises UnknownModel.

        Only items of the Responses API can hold sealed reasoning, so only its routes get a seal.
        """
        seal = (self._sealer, owner) if endpoint.dialect == "responses" else None
        route = self._resolver.resolve(model, allowed, seal)
        bind_fields(model=route.name[:_MAX_LOGGED_CHARS], provider=route.provider.name)
        return route
