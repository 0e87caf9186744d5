"""The table of client APIs, from which the process assembles its routes and the replies to failures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from fastapi import APIRouter

from gateway.dialects.agui.routes import build_agui_routes
from gateway.dialects.chat.completion_routes import build_completions_routes
from gateway.dialects.chat.endpoint import CHAT
from gateway.dialects.chat.routes import build_chat_routes
from gateway.dialects.gemini.error_form import GEMINI_ERRORS
from gateway.dialects.gemini.models import GEMINI_MODELS
from gateway.dialects.gemini.routes import build_gemini_routes
from gateway.dialects.generate.routes import build_generate_routes
from gateway.dialects.messages.endpoint import MESSAGES
from gateway.dialects.messages.error_form import MESSAGES_ERRORS
from gateway.dialects.messages.models import MESSAGES_MODELS
from gateway.dialects.messages.routes import build_messages_routes
from gateway.dialects.ollama.embedding_routes import build_ollama_embeddings_routes
from gateway.dialects.ollama.error_form import OLLAMA_ERRORS
from gateway.dialects.ollama.routes import build_ollama_routes
from gateway.dialects.responses.context_routes import build_contexts_routes
from gateway.dialects.responses.conversation_routes import build_conversations_routes
from gateway.dialects.responses.endpoint import RESPONSES
from gateway.dialects.responses.prompt_routes import build_prompts_routes
from gateway.dialects.responses.routes import build_responses_routes
from gateway.http.error_forms import ErrorForm
from gateway.replies.endpoints import Endpoint
from gateway.service.served_models import ModelsForm
from gateway.service.service import Service

RouteFactory: TypeAlias = Callable[[Service], APIRouter]


class DirectEndpoint(NamedTuple):
    """An endpoint whose `POST` requests are served without FastAPI, because it has most of the requests."""

    path: str
    endpoint: Endpoint
    has_socket: bool = False
    """Whether the path also has a WebSocket transport, whose turns are requests of the endpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientDialect:
    """What the process has to know of one client API."""

    routes: Sequence[RouteFactory]
    direct: DirectEndpoint | None = None
    """The endpoint that is served without FastAPI, and whose replies may be jobs; None if there is none."""
    error_form: ErrorForm | None = None
    """The form of its failures; None if they have the form of OpenAI's APIs."""
    models_form: ModelsForm | None = None
    """The form of its lists of models at `/v1/models`; None if it is that of OpenAI's APIs."""


CLIENT_DIALECTS: Final[Sequence[ClientDialect]] = (
    ClientDialect(
        routes=(build_responses_routes, build_contexts_routes, build_conversations_routes, build_prompts_routes),
        direct=DirectEndpoint("/v1/responses", RESPONSES, has_socket=True),
    ),
    ClientDialect(
        routes=(build_chat_routes, build_completions_routes),
        direct=DirectEndpoint("/v1/chat/completions", CHAT),
    ),
    ClientDialect(routes=(partial(build_generate_routes, CHAT),)),
    ClientDialect(
        routes=(build_messages_routes,),
        direct=DirectEndpoint("/v1/messages", MESSAGES),
        error_form=MESSAGES_ERRORS,
        models_form=MESSAGES_MODELS,
    ),
    ClientDialect(routes=(build_gemini_routes,), error_form=GEMINI_ERRORS, models_form=GEMINI_MODELS),
    ClientDialect(routes=(partial(build_agui_routes, RESPONSES),)),
    ClientDialect(routes=(build_ollama_routes, build_ollama_embeddings_routes), error_form=OLLAMA_ERRORS),
)
"""The APIs that clients may use."""
