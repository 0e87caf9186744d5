"""Which models are examined, and the configuration of the gateway that serves only them."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from pydantic import SecretStr

from gateway.config.model_config import ModelConfig
from gateway.config.settings import ApiKeySettings, AuthSettings, ServerSettings, Settings, StoreSettings
from providers.base import Capabilities, Provider

_PATTERN_CHARS: Final = frozenset("*?[")

_UNKNOWN_UPSTREAM_MODEL: Final = "doctor-no-such-model"
"""What no upstream calls a model."""


class NothingToExamine(Exception):
    """No model can be chosen. The message says what to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One model that is examined."""

    name: str
    provider: str
    provider_type: str
    upstream_model: str
    capabilities: Capabilities
    strict: bool
    unknown_model: str
    """A name of the gateway for a model that its upstream does not have."""


class Examination(NamedTuple):
    """What is examined, and the settings of the gateway it is examined through."""

    settings: Settings
    subjects: Sequence[Subject]
    key: str


def select_models(settings: Settings, names: Sequence[str]) -> dict[str, ModelConfig]:
    """The models to examine: those named, or else every one whose name is no pattern. Raises NothingToExamine."""
    if not names:
        names = [name for name in settings.models if not _PATTERN_CHARS & set(name)]
        if not names:
            raise NothingToExamine("every model of the config is a pattern: name one with --model")
    return {name: _config_of(name, settings) for name in names}


def prepare_examination(
    settings: Settings, models: Mapping[str, ModelConfig], providers: Mapping[str, Provider]
) -> Examination:
    """A gateway for `models` alone, open to one key that nobody else has, which keeps nothing.

    `providers` are the adapters of at least those models, by name.
    """
    unknown_names = {name: f"{_UNKNOWN_UPSTREAM_MODEL}-{number}" for number, name in enumerate(models)}
    subjects = [
        Subject(
            name=name,
            provider=model.provider,
            provider_type=settings.providers[model.provider].type,
            upstream_model=model.model or name,
            capabilities=model.resolve_capabilities(providers[model.provider].capabilities),
            strict=model.strict,
            unknown_model=unknown_names[name],
        )
        for name, model in models.items()
    ]
    served = {name: model.model_copy(update={"model": model.model or name}) for name, model in models.items()}
    unknown = {
        unknown_names[name]: model.model_copy(update={"model": _UNKNOWN_UPSTREAM_MODEL})
        for name, model in models.items()
    }
    key = secrets.token_urlsafe()
    changed = {
        "server": ServerSettings(
            max_body_mb=settings.server.max_body_mb, keepalive_s=settings.server.keepalive_s, drain_s=0
        ),
        "store": StoreSettings(url=None),
        "auth": AuthSettings(keys=(ApiKeySettings(name="doctor", key=SecretStr(key)),)),
        "providers": {model.provider: settings.providers[model.provider] for model in models.values()},
        "models": {**served, **unknown},
    }
    return Examination(settings.model_copy(update=changed), subjects, key)


def _config_of(name: str, settings: Settings) -> ModelConfig:
    if _PATTERN_CHARS & set(name):
        raise NothingToExamine(f"{name} is a pattern: name one model with --model")
    for pattern, model in settings.models.items():
        if fnmatchcase(name, pattern):
            return model
    known = ", ".join(settings.models) or "none"
    raise NothingToExamine(f"no model of the config is called {name}; there are: {known}")
