"""Reads the settings of MCP servers that administrators send.

They have the keys of the configuration, except keys that only the configuration file may set: commands, the
environment, and logins.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from pydantic import ValidationError

from gateway.config.checks import find_model_problems
from gateway.config.mcp_server_settings import LABEL, McpServerSettings
from gateway.config.yaml_file import ValuePath, render_path
from translation.errors import InvalidRequest
from translation.representation.json_types import Json

_FILE_KEYS: Final = {
    ("stdio",): "commands are only started for servers of the configuration file",
    ("env",): "it is for commands, which only the configuration file may have",
    ("cwd",): "it is for commands, which only the configuration file may have",
    ("as",): "only tools of servers of the configuration file are run as a hosted tool",
    ("auth", "bearer_env"): "the environment is not read for servers that are added: send the token as `bearer`",
    ("auth", "oauth", "client_secret_env"): (
        "the environment is not read for servers that are added: send the secret as `client_secret`"
    ),
}
"""Paths of keys that only the configuration file may set, each with the reason."""

_HIDDEN: Final = "*" * 10
"""The text in place of credentials, as in the values of `SecretStr`."""

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONNECTION_HEADERS: Final = frozenset(
    {"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""Headers with which a client could make the gateway send another request."""

_VARIABLE: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")


def read_server_settings(label: str, body: Json) -> McpServerSettings:
    """Returns the settings in a body. Raises InvalidRequest, which names the key that is wrong."""
    if not LABEL.fullmatch(label):
        raise InvalidRequest(
            "the name of a server has up to 32 letters, digits, _ and -, and begins with a letter", param="server_label"
        )
    for key, reason in _FILE_KEYS.items():
        if _find_value(body, key) is not None:
            raise InvalidRequest(reason, param=render_path(key), code="unsupported_parameter")
    for path, text in _texts_in(body, ()):
        if _VARIABLE.search(text):
            raise InvalidRequest(
                "`${NAME}` is not replaced for servers that are added: send the value itself",
                param=render_path(path),
                code="unsupported_parameter",
            )
    if _find_value(body, ("auth", "oauth", "grant")) == "login":
        raise InvalidRequest(
            "`responses-gateway mcp login` knows only servers of the configuration file: use client_credentials",
            param="auth.oauth.grant",
            code="unsupported_parameter",
        )
    try:
        own = McpServerSettings.model_validate(body)
    except ValidationError as error:
        problems = find_model_problems(McpServerSettings, error)
        text = "; ".join(": ".join(filter(None, (render_path(path), message))) for path, message in problems)
        raise InvalidRequest(text, param=render_path(problems[0].path) or None) from None
    if own.prefix == "":
        raise InvalidRequest(
            "servers that are added need a prefix, so that their tools do not have the names of others: leave `prefix` "
            "out for the name of the server",
            param="prefix",
        )
    check_headers({name: value.get_secret_value() for name, value in own.headers.items()}, "headers")
    if own.auth.bearer is not None:
        check_headers({"authorization": own.auth.bearer.get_secret_value()}, "auth.bearer")
    return own


def check_headers(headers: Mapping[str, str], param: str) -> None:
    """Raises InvalidRequest for headers that cannot be sent, or that control the connection."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise InvalidRequest(f"{name[:100]!r} is not the name of a header", param=param)
        if name.lower() in _CONNECTION_HEADERS or name.lower().startswith("proxy-"):
            raise InvalidRequest(f"the header {name!r} cannot be set: the gateway sets it", param=param)
        if not (value.isascii() and value.isprintable()):
            raise InvalidRequest(f"the value of the header {name!r} must be printable ASCII text", param=param)


def find_credential(own: McpServerSettings) -> str | None:
    """Returns the name of the first key with a credential; None if the server has none."""
    if own.auth.bearer is not None:
        return "auth.bearer"
    if own.auth.oauth is not None and own.auth.oauth.client_secret is not None:
        return "auth.oauth.client_secret"
    if own.headers:
        return "headers"
    return next((render_path(path) for path, url in own.addresses.items() if urlsplit(url).query), None)


def hide_credentials(own: McpServerSettings) -> Json:
    """Returns the settings as they were written. Asterisks replace credentials and the queries of addresses."""
    hidden: Json = own.model_dump(mode="json", exclude_unset=True)
    for path, url in own.addresses.items():
        parts = urlsplit(url)
        if parts.query:
            _find_value(hidden, path[:-1])[path[-1]] = urlunsplit(parts._replace(query=_HIDDEN))
    return hidden


def has_open_query(own: McpServerSettings, redacted_body: Json) -> bool:
    """Whether readable stored settings have the query of an address, as older versions wrote them."""
    return any(urlsplit(_find_value(redacted_body, path) or "").query not in ("", _HIDDEN) for path in own.addresses)


def _find_value(body: Any, path: ValuePath) -> Any:
    for key in path:
        body = body.get(key) if isinstance(body, Mapping) else None
    return body


def _texts_in(value: Any, path: ValuePath) -> Iterator[tuple[ValuePath, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts_in(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _texts_in(inner, (*path, number))
