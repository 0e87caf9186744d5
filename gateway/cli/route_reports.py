"""The command `routes explain`: reports where the turns of a model go, by a configuration or from a running server."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote

import httpx

from gateway.config.settings import Settings
from gateway.dialects.chat.endpoint import CHAT
from gateway.dialects.messages.endpoint import MESSAGES
from gateway.dialects.responses.endpoint import RESPONSES
from gateway.http.auth import ANONYMOUS, Principal
from gateway.http.guard import DrainState
from gateway.replies.endpoints import Endpoint
from gateway.service.admission import ClientRequest
from gateway.service.provider_lifetimes import build_providers
from gateway.service.service import Service
from translation.errors import InvalidRequest
from translation.representation.json_types import Json

_TIMEOUT_S: Final = 10.0


class ReportFailed(Exception):
    """There is no report, for a reason that people can read."""


def explain_model(settings: Settings, model: str, key: str | None, body: Json | None) -> Json:
    """Returns the report on a model by its configuration alone, so that the state of its upstreams is unknown.

    `key` is the name of a key. `body` is a request of the Responses, Chat Completions or Messages API. Raises
    UnknownModel, InvalidRequest and ReportFailed.
    """
    return asyncio.run(_explain(settings, model, key, body))


async def _explain(settings: Settings, model: str, key: str | None, body: Json | None) -> Json:
    principal = find_principal(settings, key)
    store_free = settings.model_copy(update={"store": settings.store.model_copy(update={"url": None})})
    service = Service(store_free, build_providers(store_free), DrainState())
    routing = service.current.routing
    if body is None:
        return routing.report(model, principal.models, is_live=False)
    endpoint = choose_api(body)
    return await routing.report_request(
        ClientRequest(endpoint, principal, {**body, "model": model}, False), is_live=False
    )


def find_principal(settings: Settings, key: str | None) -> Principal:
    """Returns the principal of a key by its name. Raises ReportFailed if there is no such key."""
    if key is None:
        return ANONYMOUS
    for each in settings.auth.keys if settings.auth else ():
        if each.name == key:
            return Principal(each.owner or each.name, each.models)
    raise ReportFailed(f"no key of the configuration is called {key}")


def choose_api(body: Json) -> Endpoint:
    """Returns the API whose request the body is. Raises InvalidRequest of the Responses API if it is of none."""
    for endpoint in () if "input" in body else (CHAT, MESSAGES):
        with suppress(InvalidRequest):
            endpoint.request.validate({"model": "m", **body})
            return endpoint
    RESPONSES.request.validate({"model": "m", **body})
    return RESPONSES


def fetch_report(server: str, model: str, secret: str | None) -> Json:
    """Returns the report of a running server. Raises ReportFailed."""
    headers: Mapping[str, str] = {} if secret is None else {"authorization": f"Bearer {secret}"}
    url = f"{server.rstrip('/').removesuffix('/v1')}/v1/gateway/routes/{quote(model)}"
    try:
        reply = httpx.get(url, headers=headers, timeout=_TIMEOUT_S, trust_env=False)
        content: Any = reply.json()
    except (httpx.HTTPError, ValueError) as error:
        raise ReportFailed(f"{server} cannot be asked: {error}") from None
    if reply.status_code != httpx.codes.OK:
        message = content.get("error", {}).get("message") if isinstance(content, dict) else None
        raise ReportFailed(str(message or f"{server} replied with status {reply.status_code}"))
    report: Json = content
    return report
