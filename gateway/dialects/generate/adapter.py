"""`POST /generate`: a small request format, served as a chat request with a profile that the request can adjust.

Knows neither the store nor the Responses API.
"""

from collections.abc import Sequence
from dataclasses import replace

from gateway.config.settings import Settings
from gateway.planning.resolver import Route, Target
from gateway.replies.endpoints import Endpoint
from gateway.service.admission import AdaptedRequest, rename_params_in_errors
from gateway.service.served_models import ServedModels
from providers.config import TOKEN_PROMPT_TYPES
from providers.engine_checks import accepts_tool_parser
from translation.encoding.visible_output import TEXT_ITEMS
from translation.errors import InvalidRequest, Unrepresentable
from translation.generate.chat_body import build_chat_body, set_thinking_budget
from translation.generate.encode import GenerateCollector, GenerateEncoder
from translation.generate.schema import validate
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import TOOL_PARSERS, Profile, two_pass_profile


def build_generate_endpoint(chat: Endpoint) -> Endpoint:
    """Returns the chat endpoint with the formats of `/generate`. `GenerateAdapter` turns its requests into chat."""
    return replace(
        chat,
        id_prefix="gen",
        request=chat.request.adapt_from(validate),
        reply=replace(
            chat.reply,
            encoder=lambda _, identity, __: GenerateEncoder(identity.model),
            collector=lambda _, identity, __: GenerateCollector(identity.model),
            visible_items=TEXT_ITEMS,
        ),
        relay=None,
        storage=None,
    )


class GenerateAdapter:
    """Turns requests to `/generate` into chat requests, by one configuration."""

    def __init__(self, chat: Endpoint, settings: Settings, models: ServedModels) -> None:
        self._chat = chat
        self._providers = settings.providers
        self._models = models

    def adapt(self, body: Json, route: Route) -> AdaptedRequest:
        """Returns the chat request for a validated body, and the route with the profile that the request wants.

        Raises InvalidRequest.
        """
        route, profile = self._adjust_targets(body, route)
        two_pass = profile.two_pass != "off"
        budget = body.get("max_thinking_tokens")
        param_names = _map_chat_names(body, two_pass=two_pass)
        with rename_params_in_errors(param_names):
            chat = self._chat.request.add_defaults(
                build_chat_body(body, model=route.name, two_pass=two_pass), route.request_defaults
            )
            self._chat.request.validate(chat)
            if budget is not None:
                chat = set_thinking_budget(chat, budget, two_pass=two_pass)
        return AdaptedRequest(chat, route, param_names)

    def choose_default_model(self, allowed: Sequence[str]) -> str:
        """Returns the first exact model name in the config that `allowed` matches. Raises InvalidRequest."""
        return self._models.find_default_model(allowed)

    def _adjust_targets(self, body: Json, route: Route) -> tuple[Route, Profile]:
        """Returns the route with profiles that the request's parameters adjust, and the profile of its first target.
        Each target has what it cannot honour of these parameters as its losses.

        Targets that get no turns or do not support them are left out, and so are those whose prompt would have another
        form. Raises InvalidRequest for values that no target supports, as the first one says.
        """
        targets: list[Target] = []
        wants_parser = body.get("tool_parser") not in (None, "openai")
        refusal: InvalidRequest | None = None
        for target in route.serving_targets:
            try:
                profile = self._resolve_profile(body, target)
            except InvalidRequest as error:
                refusal = refusal or error
                continue
            if not targets or (profile.two_pass == "off") == (targets[0].profile.two_pass == "off"):
                drops_parser = wants_parser and not self._parses_text_calls(target)
                losses = (Loss("tool_parser", "dropped"),) if drops_parser else ()
                targets.append(replace(target, profile=profile, losses=losses))
        if not targets and refusal is not None:
            raise refusal
        return route.keep_targets(targets), targets[0].profile

    def _resolve_profile(self, body: Json, target: Target) -> Profile:
        """Returns the profile of a target, adjusted by the request's parameters.

        Raises InvalidRequest for values that the model or its upstream does not support.
        """
        profile, two_pass = target.profile, body.get("two_pass")
        if two_pass and not target.capabilities.two_pass:
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
            self._check_parser(parser, target)
            self._require_own_calls(body, target, profile)
            profile = replace(profile, tool_parser=parser)
        if (limit := body.get("max_response_tokens")) is not None and profile.two_pass != "off":
            profile = replace(profile, max_response_tokens=limit)
        return profile

    def _require_own_calls(self, body: Json, target: Target, profile: Profile) -> None:
        """Raises Unrepresentable if a request with tools says that the upstream parses their calls itself, but the
        upstream only generates text."""
        if body["tool_parser"] != "openai" or not body.get("tools"):
            return
        if profile.two_pass == "on" or self._find_type(target) in TOKEN_PROMPT_TYPES:
            message = (
                "this model's calls are text that the gateway parses, so 'openai' finds none: leave tool_parser "
                f"out, or send one of {', '.join(TOOL_PARSERS)}"
            )
            raise Unrepresentable(message, param="tool_parser")

    def _parses_text_calls(self, target: Target) -> bool:
        """Whether the upstream may return tool calls as text. Others return them as calls, so no parser is used."""
        return "chat" in target.capabilities.dialects or self._find_type(target) in TOKEN_PROMPT_TYPES

    def _find_type(self, target: Target) -> str:
        """Returns the type of the target's provider; an empty text if it has left the configuration."""
        config = self._providers.get(target.provider.name)
        return "" if config is None else config.type

    def _check_parser(self, name: str, target: Target) -> None:
        known = ("openai", *TOOL_PARSERS)
        if name not in known and not accepts_tool_parser(self._find_type(target), name):
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
