"""One request of Ollama's chat or generate API: its defaults, its stream of lines, and requests without a prompt."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from gateway.dialects.ollama.endpoint import LINES_TYPE, OLLAMA_CHAT, begin_reply, format_time
from gateway.dialects.ollama.models import remove_default_tag
from gateway.http.json_reply import build_json_reply
from gateway.replies.endpoints import Endpoint
from gateway.replies.event_stream import StreamFraming
from gateway.service.service import Service
from translation.ollama.client.reply_lines import encode_line
from translation.representation.json_types import Json

_UNLOADING: Final = frozenset({"0", "0s", "0m", "0h"})


class _EmptyPrompt(Exception):
    """The request has no prompt. It only requests to load or unload the model."""


class OllamaRequest:
    """Serves one request. `endpoint` is the endpoint of its API."""

    def __init__(self, service: Service, endpoint: Endpoint) -> None:
        self._service = service
        self._endpoint = replace(
            endpoint,
            request=replace(endpoint.request, add_header_params=self._complete_body),
            reply=replace(endpoint.reply, stream=StreamFraming(LINES_TYPE, self._build_keepalive)),
        )
        self._is_chat = endpoint is OLLAMA_CHAT
        self._body: Json = {}

    async def serve(self, scope: Scope, receive: Receive) -> Response:
        """Returns the reply, as lines or as one object. Raises what `Service.serve_create` raises."""
        try:
            return await self._service.serve_create(self._endpoint, scope, receive)
        except _EmptyPrompt:
            return await self._reply_without_prompt(Request(scope, receive))

    def _complete_body(self, body: Json, _headers: Mapping[bytes, bytes]) -> Json:
        """Returns the body with the API's defaults: it streams, and a model without a tag is the latest one."""
        if body.get("stream") is None:
            body = {**body, "stream": True}
        if isinstance(model := body.get("model"), str):
            body = {**body, "model": remove_default_tag(self._service.models, model)}
        self._body = body
        if not body.get("messages" if self._is_chat else "prompt") and not body.get("images"):
            self._endpoint.request.validate(body)
            raise _EmptyPrompt
        return body

    async def _reply_without_prompt(self, request: Request) -> Response:
        """Replies like a server that has loaded, or unloaded, the model. Nothing is sent to the upstream."""
        body = self._body
        principal = self._service.authenticate(request)
        model = await self._service.models.get_model(body["model"], principal.models)
        line = begin_reply(body, model["id"], is_chat=self._is_chat).build_line()
        reason = "unload" if _requests_unload(body.get("keep_alive")) else "load"
        line |= {"done": True, "done_reason": reason}
        if not body["stream"]:
            return build_json_reply(line)
        return Response(encode_line(line), media_type=LINES_TYPE.decode())

    def _build_keepalive(self) -> bytes:
        """Returns a line without text: clients parse each line, so there is no other byte that all of them skip."""
        head = begin_reply(self._body, self._body["model"], is_chat=self._is_chat)
        return encode_line(head._replace(created_at=format_time(time.time_ns())).build_line())


def _requests_unload(keep_alive: Any) -> bool:
    return keep_alive in _UNLOADING if isinstance(keep_alive, str) else keep_alive == 0
