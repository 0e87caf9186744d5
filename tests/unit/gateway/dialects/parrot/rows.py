"""The made-up API for the process: its endpoint, its route, the form of its errors, and its row of the table."""

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from gateway.dialects.table import ClientDialect
from gateway.error_replies import choose_client_message, read_error_headers, resolve_error_reply
from gateway.http.error_forms import ErrorForm, RenderedError
from gateway.replies.endpoints import Endpoint, ReplyForm, RequestForm
from gateway.replies.event_stream import StreamFraming
from gateway.service.service import Service
from tests.unit.gateway.dialects.parrot.translators import (
    PARAM_NAMES,
    ParrotCollector,
    ParrotEncoder,
    add_defaults,
    lift,
    read_facts,
    validate,
)

PARROT: Final = Endpoint(
    name="parrot",
    id_prefix="parrot",
    param_names=PARAM_NAMES,
    request=RequestForm(validate=validate, add_defaults=add_defaults, read_facts=read_facts, lift=lift),
    reply=ReplyForm(
        encoder=lambda _body, _identity, _presentation: ParrotEncoder(),
        collector=lambda _body, _identity, _presentation: ParrotCollector(),
        stream=StreamFraming(b"application/x-ndjson", lambda: b"\n"),
    ),
)


def build_parrot_routes(service: Service) -> APIRouter:
    router = APIRouter()

    @router.post("/parrot")
    async def answer(request: Request) -> Response:
        return await service.serve_create(PARROT, request.scope, request.receive)

    return router


def _render_error(error: Exception) -> RenderedError:
    body = {"problem": choose_client_message(error), "where": getattr(error, "param", None)}
    return body, resolve_error_reply(error).status, read_error_headers(error)


def _is_request(scope: Scope) -> bool:
    path: str = scope["path"]
    return path.startswith("/parrot")


PARROT_DIALECT: Final = ClientDialect(routes=(build_parrot_routes,), error_form=ErrorForm(_is_request, _render_error))
