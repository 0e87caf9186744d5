"""Refuses requests that a web page may have caused, on a server without API keys.

A browser lets every page send requests to every address that it can reach, this machine included. If there are keys,
the key decides, because no page knows one. Without keys these headers do, which browsers set and pages cannot change:

- `Host` has the name by which the browser reached the server. A page that resolves its own name to this machine (DNS
  rebinding) has its own name there.
- `Origin` and `Sec-Fetch-Site` say that another site caused the request.
"""

from collections.abc import Callable, Mapping
from typing import Final

from starlette.responses import Response
from starlette.types import Scope

from gateway.config.settings import ServerSettings
from gateway.errors import GatewayError, HostRefused, OriginRefused, UnsupportedContentType
from gateway.http.error_forms import ErrorReplyBuilder
from gateway.http.headers import headers_of
from providers.config import is_loopback

_MAX_ACCEPTED: Final = 64
"""The most values of `Host` that are remembered as accepted. Each name may occur with several ports."""

_PAGE_HEADERS: Final = frozenset({b"origin", b"sec-fetch-site"})
"""The headers by which a request of a web page is known."""

NEEDS_JSON_TYPE: Final = "gateway.needs_json_type"
"""Scope key of requests whose JSON body must be declared as JSON."""

_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}

_PREFLIGHT_SECONDS: Final = "60"


class CrossSiteCheck:
    """Checks the headers of requests by the configuration of the server."""

    def __init__(
        self, server: ServerSettings, has_keys: Callable[[], bool], build_error_reply: ErrorReplyBuilder
    ) -> None:
        """`has_keys` returns whether clients need a key, which may change while the server runs."""
        self._has_keys = has_keys
        self._build_error_reply = build_error_reply
        self._names = frozenset(name.lower() for name in (server.host, *server.hosts))
        self._origins = frozenset(() if server.cors is None else server.cors.origins)
        self._accepted_hosts: set[bytes] = set()

    def find_refusal(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Response | None:
        """Returns the reply to a request that is refused, or None. `scope` is that of a request or of a WebSocket, and
        `headers` are its headers.

        The origin of a WebSocket is checked on every server: no other rule of browsers limits them.
        """
        host = headers.get(b"host")
        if host in self._accepted_hosts and _PAGE_HEADERS.isdisjoint(headers):
            return None  # most requests: no page sent this one, with keys or without
        has_keys = self._has_keys()
        if has_keys and scope["type"] == "http":
            return None
        if not has_keys and host is not None and host not in self._accepted_hosts and not self._accept_host(host):
            return self._build_error_reply(_build_host_error(host), scope)
        if (origin := headers.get(b"origin")) is None:
            is_cross_site = headers.get(b"sec-fetch-site") == b"cross-site"
            if not is_cross_site or has_keys or "*" in self._origins:
                return None
            return self._build_error_reply(_build_origin_error("other sites", has_keys=has_keys), scope)
        if not self._allows_origin(origin.decode("latin-1"), (host or b"").decode("latin-1")):
            return self._refuse_origin(scope, origin.decode("latin-1"), has_keys=has_keys)
        scope[NEEDS_JSON_TYPE] = True
        return None

    def _accept_host(self, host: bytes) -> bool:
        """Whether the server may be called by this value of `Host`, which has a name or address, and often a port.

        The port is not compared: a container or a tunnel may have another one. A page cannot choose the name alone.
        """
        name = _name_of(host.decode("latin-1"))
        if not is_loopback(name) and name not in self._names:
            return False
        if len(self._accepted_hosts) < _MAX_ACCEPTED:
            self._accepted_hosts.add(host)
        return True

    def _allows_origin(self, origin: str, host: str) -> bool:
        """Whether pages of an origin may send requests: those of this server, and those of `server.cors.origins`."""
        return _is_of_host(origin, host) or origin in self._origins or "*" in self._origins

    def _refuse_origin(self, scope: Scope, origin: str, *, has_keys: bool) -> Response:
        """Returns a refusal that the refused page can read. It says which key of the configuration allows the origin.

        A browser asks before it sends JSON of another origin (a preflight). It gets a yes: else the page would learn
        nothing but that the request failed. The request itself has the same `Origin`, and is refused.
        """
        readable = {"access-control-allow-origin": origin, "vary": "origin"}
        requested = headers_of(scope)
        if scope.get("method") == "OPTIONS" and b"access-control-request-method" in requested:
            names = requested.get(b"access-control-request-headers", b"").decode("latin-1")
            allowed = {
                "access-control-allow-methods": requested[b"access-control-request-method"].decode("latin-1"),
                "access-control-max-age": _PREFLIGHT_SECONDS,
                **({"access-control-allow-headers": names} if names else {}),
            }
            return Response(status_code=204, headers=readable | allowed)
        error = _build_origin_error(f"pages of {origin[:200]}", has_keys=has_keys)
        error.headers |= readable
        return self._build_error_reply(error, scope)


def require_json_type(content_type: bytes) -> None:
    """Raises UnsupportedContentType for a JSON body that is not declared as JSON, of a page where keys are not needed.

    Browsers let pages of any site send texts and forms without asking the server, but not JSON.
    """
    media_type = content_type.partition(b";")[0].strip().lower()
    if media_type != b"application/json" and not media_type.endswith(b"+json"):
        raise UnsupportedContentType("the body of a request of a web page needs content-type: application/json")


def names_this_machine(host: str) -> bool:
    """Whether a value of `Host` has a name or an address of the loopback, with or without a port."""
    return is_loopback(_name_of(host))


def _is_of_host(origin: str, host: str) -> bool:
    """Whether an origin has the name and port of a value of `Host`.

    Browsers leave out the default port of the scheme, but some proxies add it to `Host`.
    """
    scheme, _, address = origin.partition("://")
    port = _DEFAULT_PORTS.get(scheme, "")
    return address.removesuffix(port) == host.removesuffix(port) != ""


def _name_of(host: str) -> str:
    """Returns the name or address in a value of `Host`, in lower case, without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()


def _build_host_error(host: bytes) -> GatewayError:
    name = _name_of(host.decode("latin-1"))
    return HostRefused(
        f"this server has no API keys and is not called {name[:200]!r}: write the name to server.hosts, or write "
        "auth.keys"
    )


def _build_origin_error(who: str, *, has_keys: bool) -> GatewayError:
    if has_keys:
        return OriginRefused(f"{who} may not use this server: write the origin to server.cors.origins")
    return OriginRefused(
        f"this server has no API keys, so {who} may not use it: write the origin to server.cors.origins, or write "
        "auth.keys"
    )
