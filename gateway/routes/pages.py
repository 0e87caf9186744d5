"""GET / and GET /docs: pages for people, with their files and read models under /pages/."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import orjson
from fastapi import APIRouter
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from gateway.config.settings import Settings, digest_config
from gateway.errors import NotFound
from gateway.http.auth import Principal, find_key
from gateway.http.headers import headers_of
from gateway.http.json_reply import JsonReply, build_json_reply
from gateway.pages.api_page import ApiPage, build_api_page
from gateway.pages.home_page import (
    ActivityAccess,
    HomePage,
    HomePageFacts,
    ListedModel,
    Note,
    UpstreamCondition,
    build_home_page,
)
from gateway.pages.saved_report import SavedReport, UnreadableReport, read_report
from gateway.pages.static_files import PAGE_HEADERS, StaticFile, read_static_files
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
    files = read_static_files()
    api_page: Response | None = None
    api_page_lock = asyncio.Lock()

    @router.get("/")
    async def get_home_page(request: Request) -> Response:
        """Show the home page. A client that does not accept HTML gets the status and the links as JSON."""
        if "text/html" not in request.headers.get("accept", ""):
            readiness, _ = report_readiness(service)
            return build_json_reply(_build_index(readiness, version), headers={"vary": "accept"})
        return _serve_file(files["home.html"], request, {"vary": "accept"})

    @router.get("/docs")
    async def get_api_page(request: Request) -> Response:
        """Show the page with the endpoints of /openapi.json."""
        return _serve_file(files["api.html"], request)

    @router.get("/pages/home.json")
    async def get_home_page_model(request: Request) -> Response:
        """Return what the home page shows. If the server has keys, a request without one gets neither models nor
        report."""
        settings = service.settings
        await service.current.reachability.examine()
        readiness, _ = report_readiness(service)
        facts = HomePageFacts(
            version=version,
            status=readiness["status"],
            notes=_list_notes(readiness),
            base_url=_find_base_url(request, settings),
            needs_key=settings.auth is not None,
            models=None,
        )
        if settings.auth is None or find_key(headers_of(request.scope)):
            principal = service.authenticate(request)
            report, problem = await _read_report(service, principal)
            facts = replace(
                facts,
                models=await _list_models(service, principal),
                patterns=_list_patterns(service, principal),
                upstreams=_list_upstreams(service, principal),
                tool_servers=[
                    server["server_label"]
                    for server in service.operator_servers.describe_servers(principal.mcp_servers)
                ],
                activity=_find_activity_access(settings, principal),
                report=report,
                report_problem=problem,
                config_digest=digest_config(settings),
            )
        return _serve_model(build_home_page(facts))

    @router.get("/pages/api.json")
    async def get_api_page_model(request: Request) -> Response:
        """Return what the API page shows. It is the same for everybody, and is built once."""
        nonlocal api_page
        async with api_page_lock:
            if api_page is None:
                # Building the document takes a second. It must not hold a thread that lookups of hosts need.
                api_page = await service.large_bodies.call_apart(
                    lambda: _serve_model(build_api_page(request.app.openapi()))
                )
        return api_page

    @router.get("/pages/{name}")
    async def get_static_file(name: str, request: Request) -> Response:
        """Return a style, a script or the icon of the pages."""
        if (file := files.get(name)) is None:
            raise NotFound(f"there is no GET {request.url.path:.200}")
        return _serve_file(file, request)

    return router


def _serve_file(file: StaticFile, request: Request, headers: Mapping[str, str] | None = None) -> Response:
    is_cached = request.headers.get("if-none-match") == file.etag
    return Response(
        b"" if is_cached else file.content, 304 if is_cached else 200, headers={**file.headers, **(headers or {})}
    )


def _serve_model(model: HomePage | ApiPage) -> Response:
    # What a page shows can depend on the key of its request.
    headers = {**PAGE_HEADERS, "cache-control": "no-store", "vary": "authorization, x-api-key, x-goog-api-key"}
    return JsonReply(orjson.dumps(model, default=BaseModel.model_dump), 200, headers)


def _build_index(readiness: Json, version: str) -> Json:
    return {
        "name": "responses-gateway",
        # Clients of Ollama's API look for this sentence in the text at the root.
        "ollama": "Ollama is running",
        "version": version,
        "status": readiness["status"],
        "links": {"models": "/v1/models", "openapi": "/openapi.json", "docs": "/docs", "ready": "/readyz"},
    }


def _list_notes(readiness: Json) -> list[Note]:
    """Returns the parts of `/readyz` that the page shows beside the status."""
    notes = [Note(name.capitalize(), str(reason)) for name, reason in readiness.get("degraded", {}).items()]
    for name, engine in readiness.get("engines", {}).items():
        detail = f": {engine['detail']}" if engine["detail"] else ""
        notes.append(Note(f"Engine {name}", f"{engine['state']}{detail}, {engine['running']} running"))
    return notes


async def _list_models(service: Service, principal: Principal) -> list[ListedModel]:
    listed = await service.models.list_models(principal.models, wait_s=_LISTING_S)
    return [ListedModel(model["id"], tuple(service.models.list_serving_providers(model["id"]))) for model in listed]


def _list_patterns(service: Service, principal: Principal) -> list[ListedModel]:
    rows = service.models.list_patterns(principal.models)
    return [ListedModel(pattern, tuple(providers)) for pattern, providers in rows]


def _list_upstreams(service: Service, principal: Principal) -> list[UpstreamCondition]:
    """Returns the providers of the models that `principal` may use."""
    problems, engines = service.current.reachability.problems, service.current.engines.report_conditions()
    examined = service.current.reachability.examined_names
    conditions = []
    for name in service.models.list_providers(principal.models):
        is_usable: bool | None = None
        detail = "not examined"
        if name in engines:
            is_usable, detail = engines[name]["state"] == "ready", engines[name]["detail"] or engines[name]["state"]
        elif name in problems:
            is_usable, detail = False, problems[name]
        elif name in examined:
            is_usable, detail = True, "accepts connections"
        elif not service.settings.providers[name].base_url:
            is_usable, detail = True, "runs in the gateway"
        conditions.append(UpstreamCondition(name, service.settings.providers[name].type, is_usable, detail))
    return conditions


def _find_activity_access(settings: Settings, principal: Principal) -> ActivityAccess:
    if settings.auth is not None and not principal.is_admin:
        return "hidden"
    return "shown" if settings.metrics.enabled else "off"


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
    results = tuple(result for result in report.results if service.models.has_model(result.model, principal.models))
    return report.model_copy(update={"results": results}), ""


def _find_base_url(request: Request, settings: Settings) -> str:
    """Returns the server's address as the client knows it. A `Host` that is not a host name is not repeated."""
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        host = f"{settings.server.host}:{settings.server.port}"
    return f"{request.url.scheme}://{host}"
