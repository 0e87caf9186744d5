"""GET / and GET /docs: pages for people."""

import asyncio
import re
from pathlib import Path
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.config.digest import digest_config
from gateway.config.settings import Settings
from gateway.http.auth import Principal, find_key
from gateway.http.headers import headers_of
from gateway.http.json_reply import build_json_reply
from gateway.pages.api_page import build_api_page
from gateway.pages.document import HtmlDocument
from gateway.pages.home_page import HomePage, HomePageModel, build_home_page
from gateway.pages.saved_report import SavedReport, UnreadableReport, read_report
from gateway.routes.health import report_readiness
from gateway.service.service import Service
from gateway.version import read_installed_version
from translation.representation.json_types import Json

_LISTING_S: Final = 2.0
"""Seconds that the page waits for upstreams to list their models."""

_HOST: Final = re.compile(r"[A-Za-z0-9.-]+(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?")
"""Matches a `Host` header that can be part of a command to copy."""


def build_pages_routes(service: Service) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    version = read_installed_version()

    @router.head("/")
    async def probe() -> Response:
        """Reply to programs that only probe for a server."""
        return Response()

    @router.get("/")
    async def get_home_page(request: Request) -> Response:
        """Show the status, the models with examples, and the last report of the doctor.

        A client that does not accept HTML gets the status and the links as JSON. If the server has keys, a request
        without one gets neither models nor report.
        """
        settings = service.settings
        readiness, _ = report_readiness(service)
        if "text/html" not in request.headers.get("accept", ""):
            return build_json_reply(_build_index(readiness, version), headers={"vary": "accept"})
        needs_key = settings.auth is not None
        models, report, problem = None, None, ""
        patterns: list[HomePageModel] = []
        if not needs_key or find_key(headers_of(request.scope)):
            principal = service.authenticate(request)
            models = await _list_models(service, principal)
            patterns = _list_patterns(service, principal)
            report, problem = await _read_report(service, principal)
        return _build_reply(
            build_home_page(
                HomePage(
                    version=version,
                    status=readiness["status"],
                    notes=_list_notes(readiness),
                    base_url=_find_base_url(request, settings),
                    needs_key=needs_key,
                    models=models,
                    patterns=patterns,
                    report=report,
                    report_problem=problem,
                    config_digest="" if models is None else digest_config(settings),
                )
            )
        )

    @router.get("/docs")
    async def get_api_page(request: Request) -> Response:
        """Show the endpoints of /openapi.json."""
        # Building the document for the first time takes a second.
        return _build_reply(await asyncio.to_thread(lambda: build_api_page(request.app.openapi())))

    return router


def _build_reply(document: HtmlDocument) -> Response:
    return Response(document.text, headers=document.headers)


def _build_index(readiness: Json, version: str) -> Json:
    return {
        "name": "responses-gateway",
        "version": version,
        "status": readiness["status"],
        "links": {"models": "/v1/models", "openapi": "/openapi.json", "docs": "/docs", "ready": "/readyz"},
    }


def _list_notes(readiness: Json) -> list[tuple[str, str]]:
    """Returns (name, text) of the parts of `/readyz` that the page shows."""
    notes = [(name.capitalize(), str(reason)) for name, reason in readiness.get("degraded", {}).items()]
    for name, engine in readiness.get("engines", {}).items():
        detail = f": {engine['detail']}" if engine["detail"] else ""
        notes.append((f"Engine {name}", f"{engine['state']}{detail}, {engine['running']} running"))
    return notes


async def _list_models(service: Service, principal: Principal) -> list[HomePageModel]:
    listed = await service.catalogue.list_models(principal.models, wait_s=_LISTING_S)
    return [HomePageModel(name=model["id"], provider=model["owned_by"]) for model in listed]


def _list_patterns(service: Service, principal: Principal) -> list[HomePageModel]:
    rows = service.catalogue.list_patterns(principal.models)
    return [HomePageModel(name=pattern, provider=provider) for pattern, provider in rows]


async def _read_report(service: Service, principal: Principal) -> tuple[SavedReport | None, str]:
    """Returns the doctor's results for the models that `principal` may use, and the problem with their file."""
    file = service.settings.server.doctor_report
    if file is None:
        return None, ""
    try:
        report = await asyncio.to_thread(read_report, Path(file))
    except UnreadableReport as error:
        return None, str(error)
    if report is None:
        return None, ""
    results = tuple(result for result in report.results if service.catalogue.has_model(result.model, principal.models))
    return report.model_copy(update={"results": results}), ""


def _find_base_url(request: Request, settings: Settings) -> str:
    """Returns the server's address as the client knows it. A `Host` that is not a host name is not repeated."""
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        host = f"{settings.server.host}:{settings.server.port}"
    return f"{request.url.scheme}://{host}"
