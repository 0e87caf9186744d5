"""Selects the models to examine, and builds the configuration of a gateway that serves only them."""

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from pydantic import SecretStr

from gateway.config.auth_settings import ApiKeySettings, AuthSettings
from gateway.config.mcp_server_settings import McpServerSettings, ModelToolSettings
from gateway.config.model_config import ModelConfig
from gateway.config.settings import ServerSettings, Settings, StoreSettings
from gateway.config.tool_settings import ToolSettings
from providers.base import Capabilities, Provider
from providers.engine_checks import explain_absent_model

_PATTERN_CHARS: Final = frozenset("*?[")

_UNKNOWN_UPSTREAM_MODEL: Final = "doctor-no-such-model"
_TEXT_PARSER_KEYS: Final = ("tool_parser", "text_tool_calls")
"""A model name that no upstream has."""


class NoModelsSelected(Exception):
    """No model can be selected. The message names the option to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One model that is examined."""

    name: str
    """The name that requests have. Each of several upstreams of a name has one of its own."""
    provider: str
    provider_type: str
    upstream_model: str
    capabilities: Capabilities
    strict: bool
    has_text_calls: bool = False
    """Whether the gateway parses calls from the model's text, so that the upstream need not."""
    unknown_model: str
    """A model name of the gateway. Its upstream does not have the model."""
    sample_model: str = ""
    """Another name of the model, to which no tools are added."""
    sample_server: str = ""
    """The label of the MCP server that the doctor starts."""
    model: str | None = None
    """The name in the configuration, if `name` is another one."""
    row: int | None = None
    """The place among the `upstreams` of the name; None for a name with one provider."""

    @property
    def title(self) -> str:
        """The name in the configuration."""
        return self.model or self.name

    @property
    def place(self) -> str:
        """The path of its keys in the configuration."""
        return f"models.{self.title}" if self.row is None else f"models.{self.title}.upstreams.{self.row}"


class ExaminedModel(NamedTuple):
    """A model to examine, as a name that one upstream serves. `model` and `row` are those of `Subject`."""

    config: ModelConfig
    model: str | None = None
    row: int | None = None


class Examination(NamedTuple):
    """The models to examine, and the settings and API key of the gateway that serves them."""

    settings: Settings
    subjects: Sequence[Subject]
    key: str


def select_models(settings: Settings, names: Sequence[str]) -> dict[str, ExaminedModel]:
    """Returns the models in `names`, or if it is empty all whose names are no patterns. Raises NoModelsSelected.

    Of a name with several upstreams each is a model of its own.
    """
    if not names:
        names = [name for name in settings.models if not _PATTERN_CHARS & set(name)]
        if not names:
            raise NoModelsSelected("every model of the config is a pattern: name one with --model")
    models: dict[str, ExaminedModel] = {}
    for name in names:
        models |= _list_rows(name, _find_config(name, settings))
    return models


def _list_rows(name: str, config: ModelConfig) -> dict[str, ExaminedModel]:
    """Returns the upstreams of a name, each under a name of its own if there are several."""
    if config.upstreams is None:
        return {name: ExaminedModel(config)}
    if len(config.upstreams) == 1:
        return {name: ExaminedModel(config.with_row(0), row=0)}
    counts = Counter(row.provider for row in config.rows)
    models = {}
    for index, row in enumerate(config.rows):
        upstream_model = row.model or name
        upstream = f"{row.provider}:{upstream_model}" if counts[row.provider] > 1 else row.provider
        own = config.with_row(index).model_copy(update={"model": upstream_model})
        models[f"{name} ({upstream})"] = ExaminedModel(own, name, index)
    return models


def prepare_examination(
    settings: Settings,
    examined: Mapping[str, ExaminedModel],
    providers: Mapping[str, Provider],
    sample_tools_url: str | None = None,
) -> Examination:
    """Builds the settings of a gateway that serves these models alone, accepts one new random key, and stores nothing.

    `providers` has at least the providers of these models, by name. `sample_tools_url` is the URL of an MCP server for
    checks; None if no check needs one.
    """
    models = {name: each.config for name, each in examined.items()}
    sample_server = f"doctor-{secrets.token_hex(4)}"
    sample_names = {name: f"doctor-tools-{number}" for number, name in enumerate(models)}
    unknown_names = {name: f"{_UNKNOWN_UPSTREAM_MODEL}-{number}" for number, name in enumerate(models)}
    upstreams = {name: model.rows[0] for name, model in models.items()}
    subjects = [
        Subject(
            name=name,
            provider=upstreams[name].provider,
            provider_type=settings.providers[upstreams[name].provider].type,
            upstream_model=model.model or name,
            capabilities=model.resolve_capabilities(providers[upstreams[name].provider].capabilities),
            strict=model.strict,
            has_text_calls=any(model.to_overrides().get(name, "none") != "none" for name in _TEXT_PARSER_KEYS),
            unknown_model=unknown_names[name],
            sample_model=sample_names[name],
            sample_server=sample_server,
            model=examined[name].model,
            row=examined[name].row,
        )
        for name, model in models.items()
    ]
    served_models = {name: model.model_copy(update={"model": model.model or name}) for name, model in models.items()}
    unknown_models = {
        unknown_names[name]: model.model_copy(update={"model": _UNKNOWN_UPSTREAM_MODEL})
        for name, model in models.items()
    }
    sample_models = {
        sample_names[name]: model.model_copy(update={"model": model.model or name, "tools": ModelToolSettings()})
        for name, model in models.items()
    }
    key = secrets.token_urlsafe()
    overrides: dict[str, object] = {
        "server": ServerSettings(
            max_body_mb=settings.server.max_body_mb, keepalive_s=settings.server.keepalive_s, drain_s=0
        ),
        "store": StoreSettings(url=None),
        "auth": AuthSettings(keys=(ApiKeySettings(name="doctor", key=SecretStr(key)),)),
        "providers": {row.provider: settings.providers[row.provider] for row in upstreams.values()},
        "models": {**served_models, **unknown_models, **sample_models},
    }
    if sample_tools_url is not None:
        overrides["tools"] = _add_server(settings.tools, sample_server, sample_tools_url)
    return Examination(settings.model_copy(update=overrides), subjects, key)


def _add_server(tools: ToolSettings, label: str, url: str) -> ToolSettings:
    """Returns the settings with a server whose tools have no prefix, since the demo model knows only plain names."""
    server = McpServerSettings(url=url, approval="never", prefix="")
    servers = {**tools.mcp.servers, label: server}
    return tools.model_copy(update={"mcp": tools.mcp.model_copy(update={"servers": servers})})


def _find_config(name: str, settings: Settings) -> ModelConfig:
    if _PATTERN_CHARS & set(name):
        raise NoModelsSelected(f"{name} is a pattern: name one model with --model")
    for pattern, model in settings.models.items():
        if fnmatchcase(name, pattern):
            return model
    known = ", ".join(settings.models) or "none"
    absence = explain_absent_model(name) or f"there are: {known}"
    raise NoModelsSelected(f"no model of the config is called {name}; {absence}")
