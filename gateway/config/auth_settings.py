"""The section `auth` of the configuration."""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator
from pydantic_core import PydanticCustomError

from gateway.config.model_config import NonEmptyText

ANONYMOUS_NAME: Final = "anonymous"
"""The owner of what is stored for requests without a key, as long as none is configured."""

_MAX_NAME_CHARS: Final = 255


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ApiKeySettings(_Section):
    """One API key that clients may send."""

    name: NonEmptyText = Field(
        description="The name of the key's holder in logs. It is also the owner of everything that is stored for the "
        "key: under another name, the key has no access to it."
    )
    key: Annotated[SecretStr, Field(min_length=1)] = Field(
        description="The key itself. With `key_env` it is read from the environment instead."
    )
    key_env: str | None = Field(default=None, description="The environment variable that holds the key.")
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

    @field_validator("name")
    @classmethod
    def _refuse_unusable_names(cls, name: str) -> str:
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

    @property
    def secret(self) -> str:
        """The key as plain text."""
        return self.key.get_secret_value()


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
        names, secrets = [key.name for key in keys], [key.secret for key in keys]
        if name := next((name for name in names if names.count(name) > 1), None):
            raise PydanticCustomError("twins", "two keys are named {name}; give each its own name", {"name": name})
        if name := next((key.name for key in keys if secrets.count(key.secret) > 1), None):
            raise PydanticCustomError("twins", "{name} has the same key as another; give each its own", {"name": name})
        return keys
