"""Which models are examined, and the configuration of the gateway that serves only them."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from pydantic import SecretStr

from gateway.config.model_config import ModelConfig
from gateway.config.settings import AuthSettings, Key, Server, Settings, Store
from providers.base import Capabilities, Provider

_PATTERN: Final = frozenset("*?[")

_NOWHERE: Final = "doctor-no-such-model"
"""What no upstream calls a model."""


class NothingToExamine(Exception):
    """No model can be chosen. The message says what to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One model that is examined."""

    name: str
    provider: str
    kind: str
    upstream_model: str
    capabilities: Capabilities
    strict: bool
    stranger: str
    """A name of the gateway for a model that its upstream does not have."""


class Practice(NamedTuple):
    """What is examined, and the settings of the gateway it is examined through."""

    settings: Settings
    subjects: Sequence[Subject]
    key: str


def chosen(settings: Settings, names: Sequence[str]) -> dict[str, ModelConfig]:
    """The models to examine: those named, or else every one whose name is no pattern. Raises NothingToExamine."""
    if not names:
        names = [name for name in settings.models if not _PATTERN & set(name)]
        if not names:
            raise NothingToExamine("every model of the config is a pattern: name one with --model")
    return {name: _config_of(name, settings) for name in names}


def practice(settings: Settings, models: Mapping[str, ModelConfig], providers: Mapping[str, Provider]) -> Practice:
    """A gateway for `models` alone, open to one key that nobody else has, which keeps nothing.

    `providers` are the adapters of at least those models, by name.
    """
    strangers = {name: f"{_NOWHERE}-{number}" for number, name in enumerate(models)}
    subjects = [
        Subject(
            name=name,
            provider=model.provider,
            kind=settings.providers[model.provider].type,
            upstream_model=model.model or name,
            capabilities=model.capabilities_over(providers[model.provider].capabilities),
            strict=model.strict,
            stranger=strangers[name],
        )
        for name, model in models.items()
    ]
    served = {name: model.model_copy(update={"model": model.model or name}) for name, model in models.items()}
    unknown = {strangers[name]: model.model_copy(update={"model": _NOWHERE}) for name, model in models.items()}
    key = secrets.token_urlsafe()
    changed = {
        "server": Server(max_body_mb=settings.server.max_body_mb, keepalive_s=settings.server.keepalive_s, drain_s=0),
        "store": Store(url=None),
        "auth": AuthSettings(keys=(Key(name="doctor", key=SecretStr(key)),)),
        "providers": {model.provider: settings.providers[model.provider] for model in models.values()},
        "models": {**served, **unknown},
    }
    return Practice(settings.model_copy(update=changed), subjects, key)


def _config_of(name: str, settings: Settings) -> ModelConfig:
    if _PATTERN & set(name):
        raise NothingToExamine(f"{name} is a pattern: name one model with --model")
    for pattern, model in settings.models.items():
        if fnmatchcase(name, pattern):
            return model
    known = ", ".join(settings.models) or "none"
    raise NothingToExamine(f"no model of the config is called {name}; there are: {known}")
