"""`POST /generate`: a small request format, served as a chat request with a profile that the request can adjust.

Knows neither the store nor the Responses API.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final

from gateway.config.settings import Settings
from gateway.http.auth import Principal
from gateway.logs import bind_fields
from gateway.planning.plan import make_plan, require_no_loss
from gateway.planning.request_defaults import apply_request_defaults
from gateway.planning.resolver import Resolver, Route
from gateway.replies.endpoints import CHAT, Presentation, ReplyIdentity
from gateway.service.accepted_request import AcceptedRequest
from gateway.service.run import Run
from providers.config import TOKEN_PROMPT_TYPES
from providers.engine_checks import accepts_tool_parser
from providers.new_id import new_id
from translation.chat.schema import validate as validate_chat
from translation.errors import InvalidRequest, Unrepresentable
from translation.framing.sse import DEFAULT_MAX_FRAME_BYTES
from translation.generate.chat_body import build_chat_body, set_thinking_budget
from translation.generate.encode import GenerateCollector, GenerateEncoder
from translation.generate.schema import validate
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import TOOL_PARSERS, Profile, two_pass_profile

GENERATE: Final = replace(
    CHAT,
    id_prefix="gen",
    allows_relay=False,
    encoder=lambda _, identity, __: GenerateEncoder(identity.model),
    collector=lambda _, identity, __: GenerateCollector(identity.model),
)
"""The chat endpoint with the reply format of `/generate`: requests are lifted as chat after `build_chat_body`."""

_MAX_LOGGED_CHARS = 200


class GenerateIntake:
    """Accepts requests of `/generate`. Nothing of them is stored."""

    def __init__(self, settings: Settings, resolver: Resolver) -> None:
        self._resolver = resolver
        self._provider_types = {name: config.type for name, config in settings.providers.items()}

    def accept(self, principal: Principal, body: Json, *, strict: bool) -> AcceptedRequest:
        """Validates, routes and plans a body, without sending anything. Raises InvalidRequest and UnknownModel."""
        validate(body)
        route = self._resolver.resolve(body.get("model") or self._default_model(principal.models), principal.models)
        bind_fields(model=route.name[:_MAX_LOGGED_CHARS], provider=route.provider.name)
        profile = self._resolve_profile(body, route)
        two_pass = profile.two_pass != "off"
        route = replace(route, profile=profile)
        budget = body.get("max_thinking_tokens")
        names = _map_chat_names(body, two_pass=two_pass)
        with _rename_refused_params(names):
            chat = apply_request_defaults(
                build_chat_body(body, model=route.name, two_pass=two_pass), route.request_defaults, "chat"
            )
            validate_chat(chat)
            if budget is not None:
                chat = set_thinking_budget(chat, budget, two_pass=two_pass)
            plan = make_plan(GENERATE, chat, route, strict=strict)
        losses = [loss._replace(param=names.get(loss.param, loss.param)) for loss in plan.losses]
        if body.get("tool_parser") not in (None, "openai") and not self._parses_text_calls(route):
            losses.append(Loss("tool_parser", "dropped"))
            require_no_loss(losses, strict=strict or route.strict)
        created = int(time.time())
        run = Run(
            GENERATE,
            chat,
            ReplyIdentity(id=new_id(GENERATE.id_prefix), created=created, model=route.name),
            Presentation(
                reasoning_fields=frozenset(),
                max_frame_bytes=DEFAULT_MAX_FRAME_BYTES,
                clock=lambda: created,
                scrub=route.provider.redact,
            ),
            replace(plan, losses=losses),
        )
        return AcceptedRequest(run=run)

    def _default_model(self, allowed: Sequence[str]) -> str:
        """Returns the first exact model name in the config that `allowed` matches. Raises InvalidRequest."""
        for row in self._resolver.model_rows():
            if row.is_exact and any(fnmatchcase(row.pattern, pattern) for pattern in allowed):
                return row.pattern
        raise InvalidRequest(
            "model is required: the config has no exact model name to use as the default",
            param="model",
            code="missing_required_parameter",
        )

    def _resolve_profile(self, body: Json, route: Route) -> Profile:
        """Returns the model's profile, adjusted by the request's parameters.

        Raises InvalidRequest for values that the model or its upstream does not support.
        """
        profile, two_pass = route.profile, body.get("two_pass")
        if two_pass and not route.capabilities.two_pass:
            raise Unrepresentable(
                "the model's upstream cannot continue a prompt of tokens, which two passes need: leave out two_pass",
                param="two_pass",
            )
        if two_pass and profile.two_pass == "off":
            profile = two_pass_profile(profile)
        if two_pass is False and profile.two_pass != "off":
            # Without two passes, only tags separate the thinking from the answer.
            profile = replace(profile, two_pass="off", parsing_format="think_tags")
        if (tag := body.get("think_tag")) is not None:
            profile = replace(profile, think_tag=tag)
        if (parser := body.get("tool_parser")) is not None:
            self._check_parser(parser, route)
            profile = replace(profile, tool_parser=parser)
        if (limit := body.get("max_response_tokens")) is not None and profile.two_pass != "off":
            profile = replace(profile, max_response_tokens=limit)
        return profile

    def _parses_text_calls(self, route: Route) -> bool:
        """Whether the upstream may return tool calls as text. Others return them as calls, so no parser is used."""
        return (
            "chat" in route.capabilities.dialects or self._provider_types.get(route.provider.name) in TOKEN_PROMPT_TYPES
        )

    def _check_parser(self, name: str, route: Route) -> None:
        known = ("openai", *TOOL_PARSERS)
        if name not in known and not accepts_tool_parser(self._provider_types.get(route.provider.name, ""), name):
            message = f"there is no parser {name!r:.100} for this model: send one of {', '.join(known)}"
            raise InvalidRequest(message, param="tool_parser")


def _map_chat_names(body: Json, *, two_pass: bool) -> dict[str, str]:
    """Returns a map from chat parameters to the parameters of `/generate` that the request set them by."""
    names: dict[str, str] = {}
    if body.get("max_response_tokens") is not None and not two_pass and body.get("max_completion_tokens") is None:
        names["max_completion_tokens"] = "max_response_tokens"
    if body.get("max_thinking_tokens") is not None:
        names["reasoning.max_tokens"] = "max_thinking_tokens"
        if body.get("reasoning_effort") is None:
            names |= dict.fromkeys(("reasoning_effort", "thinking"), "max_thinking_tokens")
    return names


@contextmanager
def _rename_refused_params(names: dict[str, str]) -> Iterator[None]:
    """Raises InvalidRequest of the block with the parameter's name in the client's request."""
    try:
        yield
    except InvalidRequest as error:
        if (name := names.get(chat_name := error.param or "")) is None:
            raise
        message = error.message.replace(chat_name, name)
        raise InvalidRequest(message, param=name, code=error.code) from None
