"""The sections `auth` and `limits` of the configuration: who may use the gateway, and how much each owner may have."""

import hashlib
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from gateway.config.model_config import NonEmptyText
from providers.overrides import Number, WholeNumber

ANONYMOUS_NAME: Final = "anonymous"
"""The owner of what is stored for requests without a key, as long as none is configured."""

_MAX_NAME_CHARS: Final = 255


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LimitSettings(_Section):
    """Limits per owner, so that no client can stop the others. Requests beyond a limit get status 429.

    The owner of a request is that of its API key, by default the key's name. Without `auth` all requests have the same
    owner, and `open_requests` and `websockets` do not apply.
    """

    open_requests: WholeNumber = Field(
        default=1000, ge=1, description="The most requests of one owner that are open at once in one server process."
    )
    websockets: WholeNumber = Field(
        default=200, ge=1, description="The most WebSockets of one owner that are open at once in one server process."
    )
    background_jobs: WholeNumber = Field(
        default=1000,
        ge=1,
        description="The most responses of one owner that run in the background, or can be resumed, and have not "
        "ended. They are counted over all server processes, including queued ones.",
    )
    event_log_mb: Number = Field(
        default=1024.0, gt=0, description="The largest size of one owner's streams that can be replayed, in MiB."
    )
    prompts: WholeNumber = Field(default=1000, ge=1, description="The most stored prompts of one owner.")
    prompt_versions: WholeNumber = Field(default=100, ge=1, description="The most versions of one prompt.")
    idempotency_keys: WholeNumber = Field(
        default=1_000_000,
        ge=1,
        description="The most values of `Idempotency-Key` that are stored for one owner. They are counted once a "
        "minute.",
    )
    files: WholeNumber = Field(default=100_000, ge=1, description="The most files of one owner.")
    files_mb: Number = Field(
        default=10_000.0, gt=0, description="The most bytes of all files of one owner, in MB (10⁶ bytes)."
    )
    vector_stores: WholeNumber = Field(default=1000, ge=1, description="The most vector stores of one owner.")

    def replace_by(self, own: "KeyLimits | None") -> "LimitSettings | None":
        """Returns the limits of a key with limits of its own; None for a key without."""
        return None if own is None else self.model_copy(update=own.model_dump(exclude_none=True))


class _KeySection(_Section):
    """Limits that replace those of the section `limits` for one key. A limit that is left out is not replaced."""


if TYPE_CHECKING:

    class KeyLimits(_KeySection):
        """Limits of one key."""

else:
    KeyLimits = create_model(
        "KeyLimits",
        __base__=_KeySection,
        __doc__=_KeySection.__doc__,
        **{
            name: (
                Annotated[field.annotation, *field.metadata] | None,
                Field(default=None, description=f"Instead of [`limits.{name}`](#limits.{name})."),
            )
            for name, field in LimitSettings.model_fields.items()
        },
    )


class ApiKeySettings(_Section):
    """One API key that clients may send."""

    name: NonEmptyText = Field(description="The name of the key in logs. Each key has its own.")
    owner: NonEmptyText | None = Field(
        default=None,
        description="The owner of everything that is stored for the key, whom `limits` apply to; by default `name`. "
        "Several keys may have the same owner, so that one can [replace another](operations.md#replace-a-key).",
    )
    key: Annotated[SecretStr, Field(min_length=1)] | None = Field(
        default=None,
        description="The key itself. With `key_env` it is read from the environment instead, and with `key_sha256` the "
        "gateway knows its hash only.",
    )
    key_env: str | None = Field(default=None, description="The environment variable that holds the key.")
    key_sha256: Annotated[str, Field(pattern=r"\A[0-9A-Fa-f]{64}\z")] | None = Field(
        default=None,
        description="The SHA-256 hash of the key in hex, instead of `key`: `printf %s KEY | sha256sum`. Use it only "
        "for long random keys, such as `openssl rand -hex 32` makes: a short one can be guessed from its hash.",
    )
    expires_at: AwareDatetime | None = Field(
        default=None,
        description="The time from which the key is refused, with its zone: `2027-01-31T00:00:00Z`. Requests that were "
        "accepted before are finished.",
    )
    models: tuple[NonEmptyText, ...] = Field(
        default=("*",), description="Names and patterns of the models that the key may use."
    )
    mcp_servers: tuple[NonEmptyText, ...] = Field(
        default=("*",),
        description="Names and patterns of the operator's MCP servers that the key may use. For this key, other "
        "servers do not exist.",
    )
    admin: bool = Field(
        default=False,
        description="Whether the key may [add and remove MCP servers](mcp.md#add-servers-over-the-api) while the "
        "gateway runs.",
    )

    limits: KeyLimits | None = Field(
        default=None,
        description="Limits that replace those of the section [`limits`](#limits) for requests with this key. What is "
        "limited is counted for the owner, whichever of its keys it was done with.",
    )

    @field_validator("name", "owner")
    @classmethod
    def _refuse_unusable_names(cls, name: str | None) -> str | None:
        if name is None:
            return None
        if name == ANONYMOUS_NAME:
            # Its holder would read all of it, and have no limits.
            raise PydanticCustomError(
                "name",
                "{name} is the owner of what was stored before there were keys; give the key another name",
                {"name": name},
            )
        if len(name) > _MAX_NAME_CHARS or not name.isprintable():
            raise PydanticCustomError("name", "write at most 255 characters, all of them printable")
        return name

    @model_validator(mode="after")
    def _require_one_key(self) -> Self:
        if (self.key is None) == (self.key_sha256 is None):
            raise PydanticCustomError("key", "write key_env, key or key_sha256, and only one of them")
        return self

    @property
    def owner_name(self) -> str:
        """The owner of what is stored for the key."""
        return self.owner or self.name

    @property
    def digest(self) -> bytes:
        """The SHA-256 hash of the key."""
        if self.key is None:
            return bytes.fromhex(self.key_sha256 or "")
        return hashlib.sha256(self.key.get_secret_value().encode()).digest()

    @property
    def length(self) -> int | None:
        """The number of characters of the key; None if only its hash is known."""
        return None if self.key is None else len(self.key.get_secret_value())

    def has_expired(self, now: datetime) -> bool:
        """Whether the key is refused at `now`."""
        return self.expires_at is not None and now >= self.expires_at


class AuthSettings(_Section):
    """The API keys of clients. Without this section no key is required, and the gateway listens on loopback only."""

    keys: tuple[ApiKeySettings, ...] = Field(min_length=1, description="The keys that are accepted as bearer tokens.")

    @property
    def limits_servers(self) -> bool:
        """Whether a key may use only some of the operator's MCP servers."""
        return any("*" not in key.mcp_servers for key in self.keys)

    @field_validator("keys")
    @classmethod
    def _refuse_duplicates(cls, keys: tuple[ApiKeySettings, ...]) -> tuple[ApiKeySettings, ...]:
        names, digests = [key.name for key in keys], [key.digest for key in keys]
        if name := next((name for name in names if names.count(name) > 1), None):
            raise PydanticCustomError("twins", "two keys are named {name}; give each its own name", {"name": name})
        if name := next((key.name for key in keys if digests.count(key.digest) > 1), None):
            raise PydanticCustomError("twins", "{name} has the same key as another; give each its own", {"name": name})
        return keys
