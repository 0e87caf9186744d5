"""Builds the connections to the operator's servers from their settings."""

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gateway.config.mcp_server_settings import McpServerSettings
from gateway.config.settings import EgressSettings
from gateway.config.tool_settings import McpSettings
from gateway.tools.mcp.errors import McpFault
from gateway.tools.mcp.server import McpServer, StdioCommand, TokenSource
from providers.egress import EgressClient
from providers.lookups import look_up_upstream
from providers.redaction import Redactor

if TYPE_CHECKING:
    from gateway.tools.mcp.oauth.tokens import AuthorizationServer


def build_server(label: str, settings: McpSettings, tokens: TokenSource | None) -> McpServer:
    """Returns the server of a label. `tokens` provides its tokens that change."""
    own = settings.servers[label]
    headers = {name: value.get_secret_value() for name, value in own.headers.items()}
    if own.auth.bearer is not None:
        headers["authorization"] = f"Bearer {own.auth.bearer.get_secret_value()}"
    env = {name: value.get_secret_value() for name, value in own.env.items()}
    secrets = own.list_secrets()
    return McpServer(
        label=label,
        url=own.address,
        command=None if own.stdio is None else StdioCommand(arguments=own.stdio, env=env, cwd=own.cwd),
        uses_sse=own.sse is not None,
        headers=headers,
        tokens=tokens,
        limits=settings.answer_limits,
        schema_limits=settings.schema_limits,
        connect_deadline_s=own.start_deadline_s,
        scrub=lambda text: Redactor([*secrets, *(tokens.list_secrets() if tokens is not None else ())]).redact(text),
    )


def build_authorization_server(
    own: McpServerSettings, egress: EgressSettings, *, may_be_private: bool = True
) -> "AuthorizationServer":
    """Returns the authorization server of a server with `auth.oauth`. `may_be_private` is the same as for the
    server. Raises McpFault without these settings."""
    from gateway.tools.mcp.oauth.tokens import AuthorizationServer, OAuthClient

    oauth = own.auth.oauth
    if oauth is None:
        raise McpFault("authorization_failed", "the server has no auth.oauth")
    client = OAuthClient(
        client_id=oauth.client_id,
        client_secret=None if oauth.client_secret is None else oauth.client_secret.get_secret_value(),
        resource=own.address,
        token_url=oauth.token_url,
        authorization_url=oauth.authorization_url,
        scope=oauth.scope,
        client_auth=oauth.client_auth,
    )
    token_host = urlsplit(oauth.token_url or "").hostname
    written = [host for host in (own.host, token_host) if host and may_be_private]
    own_egress = EgressClient(allow=[*egress.allow, *written], resolver=look_up_upstream)
    return AuthorizationServer(client, own_egress, EgressClient(allow=egress.allow))


def build_operator_egress(
    server: McpServerSettings, egress: EgressSettings, *, may_be_private: bool = True
) -> EgressClient:
    """Returns the guard of connections to a server: its host may have a private address if `may_be_private`, and no
    other host may."""
    host = server.host if may_be_private else None
    return EgressClient(allow=[*egress.allow, *([host] if host else ())], resolver=look_up_upstream)
