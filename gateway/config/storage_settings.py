"""Where the server stores data: the URLs of databases, and the section `files` with the bytes of files."""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from gateway.config.model_config import NonEmptyText
from gateway.config.yaml_file import Problem
from providers.overrides import Number, WholeNumber
from translation.representation.json_types import mapping_or_empty

SQLITE_PREFIX: Final = "sqlite+aiosqlite:///"
POSTGRESQL_PREFIX: Final = "postgresql+asyncpg://"

_POSTGRESQL_SCHEMES: Final = frozenset(
    {"postgres", "postgresql", "postgresql+psycopg", "postgresql+psycopg2", "postgresql+asyncpg"}
)

_HIDDEN: Final = "PASSWORD"

_PACKAGE: Final = "obstore"


class BucketSettings(BaseModel):
    """A bucket of a service with the API of S3. Needs the extra `s3`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bucket: NonEmptyText = Field(description="The name of the bucket, which must exist.")
    prefix: str = Field(default="", description="Begins the names of all objects, such as `gateway/files`.")
    endpoint: NonEmptyText | None = Field(
        default=None,
        description="The address of the service, such as `https://minio.internal:9000`. By default that of AWS. The "
        "bucket is then part of the path, not of the host.",
    )
    region: NonEmptyText | None = Field(
        default=None, description="The region of the bucket. By default `AWS_REGION`, else `us-east-1`."
    )
    access_key: SecretStr | None = Field(default=None, description="The id of the access key.")
    access_key_env: str | None = Field(
        default=None,
        description="The environment variable that holds the id of the access key. Without it, credentials are found "
        "as AWS's tools find them: in `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, or by the role of the machine.",
    )
    secret_key: SecretStr | None = Field(default=None, description="The secret of the access key.")
    secret_key_env: str | None = Field(
        default=None, description="The environment variable that holds the secret of the access key."
    )
    deadline_s: Number = Field(
        default=30.0, gt=0, le=600, description="Seconds for one request to the service, with its repetitions."
    )

    @field_validator("endpoint")
    @classmethod
    def _check_address(cls, address: str | None) -> str | None:
        if address is not None and not address.startswith(("http://", "https://")):
            raise PydanticCustomError("url", "write a URL with http:// or https://")
        return address

    @field_validator("prefix")
    @classmethod
    def _strip_slashes(cls, prefix: str) -> str:
        parts = prefix.strip("/").split("/")
        if parts != [""] and any(part in ("", ".", "..") for part in parts):
            raise PydanticCustomError("prefix", "write names with single slashes between them, such as gateway/files")
        return prefix.strip("/")

    @model_validator(mode="after")
    def _require_whole_key(self) -> "BucketSettings":
        if (self.access_key is None) != (self.secret_key is None):
            raise PydanticCustomError("access_key", "write access_key_env and secret_key_env, or neither of them")
        return self


class FileSettings(BaseModel):
    """Files that clients upload. Their names and sizes are in the store, and their bytes in a folder or a bucket."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: NonEmptyText | None = Field(
        default=None,
        description="The folder of the bytes, which is made when the first file is uploaded. By default "
        "`responses-gateway-files` beside the SQLite file, or in the working directory with PostgreSQL. All servers of "
        "one database need the same folder.",
    )
    s3: BucketSettings | None = Field(
        default=None,
        description="A bucket for the bytes instead of a folder ([files.md](files.md#a-bucket)), which all servers of "
        "one database use.",
    )
    max_file_mb: Number = Field(default=512.0, gt=0, description="The largest file, in MiB.")
    max_part_mb: Number = Field(default=64.0, gt=0, description="The largest part of an upload, in MiB.")
    max_parts: WholeNumber = Field(default=10_000, ge=1, le=100_000, description="The most parts of an upload.")
    upload_hours: Number = Field(
        default=1.0, gt=0, description="Hours in which the parts of an upload must arrive. Then they are deleted."
    )

    @model_validator(mode="after")
    def _choose_one_place(self) -> "FileSettings":
        if self.path is not None and self.s3 is not None:
            raise PydanticCustomError("files", "write path or s3, and only one of them")
        return self


def check_bucket_package(tree: Mapping[str, Any]) -> Iterator[Problem]:
    """Yields a problem if a bucket is configured without the package. `tree` is the unvalidated configuration."""
    if mapping_or_empty(tree.get("files")).get("s3") is not None and find_spec(_PACKAGE) is None:
        yield Problem(("files", "s3"), 'obstore is not installed: pip install "responses-gateway[s3]"')


def find_url_problem(url: str) -> str | None:
    """Returns the advice for a URL that cannot be used, without its password; None if it can be used."""
    if url.startswith(SQLITE_PREFIX):
        # Each connection to an in-memory database would have a database of its own.
        if url.removeprefix(SQLITE_PREFIX).partition("?")[0] not in ("", ":memory:"):
            return None
    elif url.startswith(POSTGRESQL_PREFIX) and "sslmode" not in dict(parse_qsl(urlsplit(url).query)):
        return None
    suggestion = _suggest_url(url)
    return f"write {suggestion}" if suggestion else f"write {SQLITE_PREFIX}FILE, {POSTGRESQL_PREFIX}... or null"


def _suggest_url(url: str) -> str | None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme == "sqlite" and url.startswith("sqlite:///") and parts.path.strip("/") not in ("", ":memory:"):
        return SQLITE_PREFIX + url.removeprefix("sqlite:///")
    if parts.scheme not in _POSTGRESQL_SCHEMES or not parts.hostname:
        return None
    # The driver's name for libpq's `sslmode` is `ssl`.
    query = [("ssl" if name == "sslmode" else name, value) for name, value in parse_qsl(parts.query)]
    credentials, at, host = parts.netloc.rpartition("@")
    user, colon, _ = credentials.partition(":")
    hidden = f"{user}{colon}{_HIDDEN if colon else ''}{at}"
    return f"{POSTGRESQL_PREFIX}{hidden}{host}{parts.path}{'?' + urlencode(query) if query else ''}"
