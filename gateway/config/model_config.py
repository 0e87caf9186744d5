"""The configuration of one model, and of families of models."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from gateway.config.mcp_server_settings import ModelToolSettings
from gateway.config.routing_settings import Balance, TurnRouting, find_affinity_problem
from providers.base import Capabilities
from providers.config import CapabilityOverrides
from providers.model_families import MODEL_FAMILIES, ModelFamily, OwnParsingFormat, RawTextFormat
from providers.overrides import Number, OverridesOf, WholeNumber
from translation.chat.reasoning import MESSAGE_FIELDS
from translation.representation.profile import TOOL_PARSERS, Profile

NonEmptyText = Annotated[str, Field(min_length=1)]


def _require_parser(name: str | None, *, native: str) -> str | None:
    """Returns the name of a parser. `native` is the name for no parser. vLLM's parsers are allowed beside `openai`."""
    if name is None or name == native or name in TOOL_PARSERS or (native == "openai" and name.startswith("vllm:")):
        return name
    context = {"name": name, "known": ", ".join((native, *TOOL_PARSERS))}
    raise PydanticCustomError("parser", "there is no parser {name}; write one of {known}", context)


class FamilyConfig(BaseModel):
    """The form in which models of a [family](providers.md#families-of-models) write thinking and calls as text."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    patterns: tuple[NonEmptyText, ...] = Field(
        default=(),
        description="Patterns, with `*` and `?`, of the names of the family's models, in lower case and without "
        "folders. If left out, the patterns of the built-in family of this name.",
    )
    parsing_format: OwnParsingFormat = Field(
        default="direct_response",
        description="`think_tags`: the models write their thinking between think tags. `direct_response`: they do not.",
    )
    tool_parser: NonEmptyText = Field(
        default="openai",
        description="The format of the models' calls in text, as in `tool_parser` of a model. `openai`: text is not "
        "parsed for calls.",
    )

    @field_validator("tool_parser")
    @classmethod
    def _refuse_unknown_parsers(cls, name: str) -> str | None:
        return _require_parser(name, native="openai")

    def build_family(self, known: ModelFamily | None) -> ModelFamily:
        """Returns the family. `known` is the built-in family of the same name."""
        vllm_parser = self.tool_parser.removeprefix("vllm:") if self.tool_parser.startswith("vllm:") else None
        parser = self.tool_parser if vllm_parser is None else "openai"
        text = RawTextFormat(self.parsing_format, parser, vllm_parser)
        family = known or ModelFamily("from the configuration")
        patterns = tuple(pattern.lower() for pattern in self.patterns)
        return family._replace(patterns=patterns or family.patterns, text=text)


class UpstreamModel(BaseModel):
    """The model of an upstream that is served under a name."""

    provider: NonEmptyText | None = Field(
        default=None, description="The provider that serves the model. Required, unless there are `upstreams`."
    )
    model: NonEmptyText | None = Field(
        default=None,
        description="The upstream's name of the model. If left out, the upstream gets the name that the client sent.",
    )
    profile: NonEmptyText | None = Field(
        default=None,
        description="The name of a [family of models](providers.md#profiles), built-in or under `families`. It sets "
        "the defaults of the other keys here. If left out, the model's name decides.",
    )


class DescribedModel(OverridesOf[Profile], UpstreamModel):
    """The keys that describe the model of an upstream.

    It has a key for each field of `Profile`. pydantic lists them after those of `UpstreamModel`, as the docs do.
    """

    request_defaults: dict[str, Any] = Field(
        default_factory=dict,
        description="Values of request fields that clients leave out, such as `temperature`. A field with different "
        "names in OpenAI's two APIs may have either name.",
    )
    capabilities: CapabilityOverrides = Field(
        default=CapabilityOverrides(), description="The capabilities of the model that differ from its provider's."
    )

    @model_validator(mode="before")
    @classmethod
    def _expand_two_pass(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "two_pass" not in value:
            return value
        two_pass = value["two_pass"]
        if isinstance(two_pass, bool):
            return {**value, "two_pass": "on" if two_pass else "off"}
        if not isinstance(two_pass, dict):
            return value
        if duplicates := sorted(two_pass.keys() & value.keys()):
            raise PydanticCustomError(
                "two_pass", "write {name} once, in two_pass or beside it", {"name": duplicates[0]}
            )
        return {**value, "two_pass": "on", **two_pass}

    @field_validator("bridge", mode="before")
    @classmethod
    def _read_null_as_empty(cls, value: Any) -> Any:
        return "" if value is None else value

    @field_validator("tool_parser", "text_tool_calls")
    @classmethod
    def _refuse_unknown_parsers(cls, name: str | None, info: ValidationInfo) -> str | None:
        return _require_parser(name, native="openai" if info.field_name == "tool_parser" else "none")

    @field_validator("reasoning_fields")
    @classmethod
    def _refuse_other_fields(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for name in names or ():
            if name in MESSAGE_FIELDS:
                raise PydanticCustomError(
                    "reasoning_field", "{name} is a field of chat messages that has no reasoning text", {"name": name}
                )
        return names

    def build_profile_overrides(self, families: Mapping[str, ModelFamily] = MODEL_FAMILIES) -> dict[str, Any]:
        """Returns the fields of `Profile` that the operator set, over the fields of the family in `profile`."""
        family_fields = families[self.profile].fields if self.profile is not None else {}
        return {**family_fields, **self.to_overrides()}

    def resolve_capabilities(self, provider: Capabilities) -> Capabilities:
        """Returns the provider's capabilities, overridden by the model's own."""
        return self.capabilities.apply_to(provider)


class UpstreamRow(DescribedModel):
    """One of several upstreams that serve a name."""

    provider: NonEmptyText = Field(description="The provider that serves the model.")
    weight: Number = Field(
        default=1.0,
        ge=0,
        allow_inf_nan=False,
        description="Its share of the turns, relative to the other rows of its tier. 0: it gets no new turns, so that "
        "its server can be stopped once the running ones have ended.",
    )
    tier: WholeNumber = Field(
        default=0,
        ge=0,
        description="A row of a higher tier is used only while no row of a lower one is available.",
    )


class ModelConfig(DescribedModel):
    """The configuration of a model name, or of every name that matches a pattern."""

    upstreams: tuple[UpstreamRow, ...] | None = Field(
        default=None,
        min_length=1,
        description="The upstreams that serve the name together, instead of `provider` ([guide](routing.md)). The keys "
        "here that describe an upstream's model are defaults for all of them.",
    )
    balance: Balance = Field(
        default="least_busy",
        description="How one of the `upstreams` is chosen for a turn without an affinity key: `least_busy` compares "
        "two by their turns in progress, `latency` by how soon they send content, `weighted` goes by weight alone, "
        "`prefix` sends prompts that begin alike to the same upstream.",
    )
    affinity: str = Field(
        default="auto",
        description="The key by which turns of one session go to the same upstream. `auto`: what the request has of a "
        "cache key, session, conversation or previous response. `header:NAME`: this header. `none`: no key.",
    )
    routing: TurnRouting | None = Field(default=None, description="Keys of `routing` for this name.")
    resumable: bool = Field(
        default=False, description="Whether streams of this model can be resumed, as if clients sent `resumable: true`."
    )
    strict: bool = Field(
        default=False,
        description="Whether requests with losses are refused, as if clients sent `x-gateway-strict: true`.",
    )
    tools: ModelToolSettings = Field(
        default=ModelToolSettings(), description="Tools that the gateway adds to every request for the model."
    )

    @field_validator("affinity")
    @classmethod
    def _refuse_other_affinities(cls, affinity: str) -> str:
        if (problem := find_affinity_problem(affinity)) is not None:
            raise PydanticCustomError("affinity", "{problem}", {"problem": problem})
        return affinity

    @property
    def rows(self) -> tuple[UpstreamRow, ...]:
        """The upstreams with all their keys: one row of its own keys, if the name has a `provider`."""
        if self.upstreams is None:
            return (_merge_row(self, None),)
        return tuple(_merge_row(self, row) for row in self.upstreams)

    def with_row(self, index: int) -> "ModelConfig":
        """Returns the configuration of the name as one that only this upstream serves."""
        if self.upstreams is None:
            return self
        row = self.rows[index]
        values = {name: getattr(row, name) for name in DescribedModel.model_fields if name in row.model_fields_set}
        names = ("resumable", "strict", "tools")
        return ModelConfig.model_construct(**values, **{name: getattr(self, name) for name in names})


def _merge_row(model: ModelConfig, row: UpstreamRow | None) -> UpstreamRow:
    """Returns a row with the keys of its name as defaults. Mappings are merged. All values were validated before."""
    shared = {name: getattr(model, name) for name in DescribedModel.model_fields if name in model.model_fields_set}
    own = {} if row is None else {name: getattr(row, name) for name in row.model_fields_set}
    values = {**shared, **own}
    for name in shared.keys() & own.keys():
        values[name] = _merge_values(shared[name], own[name])
    return UpstreamRow.model_construct(**values)


def _merge_values(shared: Any, own: Any) -> Any:
    if isinstance(shared, CapabilityOverrides):
        return CapabilityOverrides.model_construct(**{**shared.to_overrides(), **own.to_overrides()})
    return {**shared, **own} if isinstance(shared, Mapping) and isinstance(own, Mapping) else own
