"""`POST /generate`: the small contract, on the path of chat and with the model's profile as the request wants it."""

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
from gateway.planning.request_defaults import with_defaults
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
"""Once a request is said in chat, only its reply is another."""

_MAX_LOGGED_CHARS = 200


class GenerateIntake:
    """Opens requests of `/generate`. Nothing of them is kept."""

    def __init__(self, settings: Settings, resolver: Resolver) -> None:
        self._resolver = resolver
        self._provider_types = {name: config.type for name, config in settings.providers.items()}

    def accept(self, principal: Principal, body: Json, *, strict: bool) -> AcceptedRequest:
        """Check, route and plan a body; nothing is sent. Raises InvalidRequest, UnknownModel."""
        validate(body)
        route = self._resolver.resolve(body.get("model") or self._default_model(principal.models), principal.models)
        bind_fields(model=route.name[:_MAX_LOGGED_CHARS], provider=route.provider.name)
        profile = self._resolve_profile(body, route)
        two_pass = profile.two_pass != "off"
        route = replace(route, profile=profile)
        budget = body.get("max_thinking_tokens")
        names = _client_names(body, two_pass=two_pass)
        with _renaming_params(names):
            chat = with_defaults(
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
        """The first model of the config that has a name of its own and may be used."""
        for row in self._resolver.model_rows():
            if row.is_exact and any(fnmatchcase(row.pattern, pattern) for pattern in allowed):
                return row.pattern
        raise InvalidRequest(
            "name a model: none is configured by name", param="model", code="missing_required_parameter"
        )

    def _resolve_profile(self, body: Json, route: Route) -> Profile:
        """The model's profile, with what the request says of it. Raises InvalidRequest for what cannot be."""
        profile, two_pass = route.profile, body.get("two_pass")
        if two_pass and not route.capabilities.two_pass:
            raise Unrepresentable(
                "the model's upstream cannot go on from a prompt as tokens, which two passes need: leave out two_pass",
                param="two_pass",
            )
        if two_pass and profile.two_pass == "off":
            profile = two_pass_profile(profile)
        if two_pass is False and profile.two_pass != "off":
            # What the passes told apart, the tags have to.
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
        """Whether calls may come as text. Other upstreams report each as what it is, and no parser has a say."""
        return (
            "chat" in route.capabilities.dialects or self._provider_types.get(route.provider.name) in TOKEN_PROMPT_TYPES
        )

    def _check_parser(self, name: str, route: Route) -> None:
        known = ("openai", *TOOL_PARSERS)
        if name not in known and not accepts_tool_parser(self._provider_types.get(route.provider.name, ""), name):
            told = f"there is no parser {name!r:.100} for this model: send one of {', '.join(known)}"
            raise InvalidRequest(told, param="tool_parser")


def _client_names(body: Json, *, two_pass: bool) -> dict[str, str]:
    """Chat's names -> those that the request has for the same."""
    names: dict[str, str] = {}
    if body.get("max_response_tokens") is not None and not two_pass and body.get("max_completion_tokens") is None:
        names["max_completion_tokens"] = "max_response_tokens"
    if body.get("max_thinking_tokens") is not None:
        names["reasoning.max_tokens"] = "max_thinking_tokens"
        if body.get("reasoning_effort") is None:
            names |= dict.fromkeys(("reasoning_effort", "thinking"), "max_thinking_tokens")
    return names


@contextmanager
def _renaming_params(names: dict[str, str]) -> Iterator[None]:
    """Name what is refused as the client named it."""
    try:
        yield
    except InvalidRequest as refusal:
        if (name := names.get(chat_name := refusal.param or "")) is None:
            raise
        message = refusal.message.replace(chat_name, name)
        raise InvalidRequest(message, param=name, code=refusal.code) from None
