"""Sends requests to URLs that the operator did not write: an image in a request, an MCP server of a client.

This is the only way to such URLs, because a client could name a server that only this machine can reach. So a host is
resolved once, all its addresses must be public, and the connection goes to the address that was checked. A redirect is
not followed, or is checked like a new URL.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple, TypeAlias

import httpx
import httpx2

from providers.leases import LeasedBody, LeasedConnections
from providers.lookups import look_up_host
from translation.errors import InvalidRequest

HostResolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""(host, port) -> the host's addresses. Raises OSError, and UnicodeError for an invalid name."""

_Address: TypeAlias = IPv4Address | IPv6Address

MAX_REDIRECTS = 5
_MAX_URL_CHARS = 8192
_MAX_ADDRESSES = 4
"""The most addresses of one host that are tried."""

_CONNECT_S = 5.0

_MAX_CONNECTIONS: Final = 100
_MAX_IDLE: Final = 20
_KEEPALIVE_S: Final = 5.0

DEFAULT_MAX_BYTES = 20 * 1024 * 1024
DEFAULT_DEADLINE_S = 30.0
"""The defaults of the configuration."""

_HEADERS_LEFT_OUT: Final = frozenset({b"accept-encoding", b"user-agent"})
_HEADERS_ADDED: Final = [(b"Accept-Encoding", b"identity"), (b"User-Agent", b"responses-gateway")]
"""Compression is refused, because a few compressed bytes can unpack to any size."""

_BLOCKED_NETWORKS: Sequence[IPv4Network | IPv6Network] = [
    ip_network(block)
    for block in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT, and the metadata service of Alibaba Cloud
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's internal services, at a public address
        "169.254.0.0/16",  # link-local, and the metadata services of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # the metadata service of Oracle Cloud, among others
        "192.0.2.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",  # multicast, reserved, broadcast
        "2001::/23",  # Teredo among others, which embeds an obfuscated IPv4 address
        "2001:db8::/32",
        "3fff::/20",
    )
]
"""https://www.iana.org/assignments/iana-ipv4-special-registry and -ipv6-special-registry, and internal addresses of
clouds."""

_GLOBAL_IPV6 = IPv6Network("2000::/3")
_SIX_TO_FOUR = IPv6Network("2002::/16")
_NAT64 = IPv6Network("64:ff9b::/96")


class FetchResult(NamedTuple):
    """The content of a URL. `media_type` is in lower case and without parameters; empty if the server sent none."""

    media_type: str
    content: bytes


class EgressClient:
    """Fetches URLs from the public internet. Hosts in `allow` may have any address.

    `max_bytes` and `deadline_s` are the operator's limits, for callers of `fetch`: bytes of one URL, and seconds for
    all URLs of one request.
    """

    def __init__(
        self,
        *,
        allow: Collection[str] = (),
        max_bytes: int = DEFAULT_MAX_BYTES,
        deadline_s: float = DEFAULT_DEADLINE_S,
        resolver: HostResolver = look_up_host,
    ) -> None:
        self.max_bytes = max_bytes
        self.deadline_s = deadline_s
        self._allow = frozenset(host.lower() for host in allow)
        self._resolver = resolver

    async def fetch(self, url: str, *, max_bytes: int, deadline_s: float, param: str | None = None) -> FetchResult:
        """Returns the content of `url`, after redirects. `param` names the request parameter that contained the URL.

        Raises InvalidRequest if the URL is not http(s) or leads to a private address, and if it cannot be fetched:
        unreachable, not found, larger than `max_bytes`, or not complete within `deadline_s`.
        """
        try:
            async with asyncio.timeout(deadline_s):
                return await self._fetch_with_redirects(url, max_bytes)
        except TimeoutError:
            raise InvalidRequest(f"the URL could not be fetched within {deadline_s:g} s", param=param) from None
        except EgressRefused as refused:
            raise InvalidRequest(str(refused), param=param) from refused.__cause__

    async def _fetch_with_redirects(self, url: str, max_bytes: int) -> FetchResult:
        target = parse_url(url)
        async with aclosing(GuardedSender(self, keeps_connections=False)) as sender:
            for _ in range(MAX_REDIRECTS + 1):
                result = await _fetch_once(sender, target, max_bytes)
                if isinstance(result, FetchResult):
                    return result
                target = parse_url(str(resolve_redirect(target, result)))
        raise EgressRefused(f"the URL redirects more than {MAX_REDIRECTS} times")

    async def resolve(self, scheme: str, host: str, port: int | None) -> Sequence[str]:
        """Returns the addresses of a host to be tried. Raises EgressRefused unless all that it has are public."""
        if scheme not in _DEFAULT_PORTS:
            raise EgressRefused("the URL must begin with http:// or https://")
        try:
            name = httpx2.URL(scheme=scheme, host=host).raw_host.decode("ascii")
            addresses = await self._resolver(name, port or _DEFAULT_PORTS[scheme])
        except (OSError, UnicodeError, httpx2.InvalidURL) as error:
            raise EgressRefused("the URL's host cannot be resolved") from error
        if host.lower() not in self._allow and not all(map(is_public, addresses)):
            # The message omits the address, so that clients cannot look up names of the internal network.
            raise EgressRefused("the URL leads to an address outside the public internet")
        return addresses[:_MAX_ADDRESSES]


class GuardedSender:
    """Connections to the addresses that an EgressClient allows, and to no others. It follows no redirects.

    With `keeps_connections` all requests must be to one host: a connection is kept by its address, which another host
    may have too. Owners share the connections, so that none of them takes all.
    """

    def __init__(self, egress: EgressClient, *, keeps_connections: bool = True) -> None:
        self._egress = egress
        limits = httpx2.Limits(max_connections=1, keepalive_expiry=_KEEPALIVE_S)
        self._connections = LeasedConnections(
            # Without the environment's proxy, which would resolve the name again, maybe to another address.
            lambda: httpx2.AsyncHTTPTransport(verify=_tls_context(), trust_env=False, limits=limits),
            _GuardedBody,
            max_connections=_MAX_CONNECTIONS,
            keepalive_s=_KEEPALIVE_S if keeps_connections else 0.0,
            max_idle=_MAX_IDLE,
        )

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Raises EgressRefused if the host may not be reached, and httpx2.TransportError."""
        url = request.url
        addresses = await self._egress.resolve(url.scheme, url.host, url.port)
        headers = [(name, value) for name, value in request.headers.raw if name.lower() not in _HEADERS_LEFT_OUT]
        failure: Exception | None = None
        for address in addresses:
            guarded = httpx2.Request(
                request.method,
                url.copy_with(host=address),
                headers=headers + _HEADERS_ADDED,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": url.raw_host.decode("ascii")},
            )
            try:
                response: httpx2.Response = await self._connections.send(guarded, address)
            except httpx.PoolTimeout as error:
                raise httpx2.PoolTimeout(str(error)) from error
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
            else:
                return response
        raise failure or httpx2.ConnectError("the host has no address")

    async def aclose(self) -> None:
        await self._connections.aclose()


class _GuardedBody(LeasedBody, httpx2.AsyncByteStream):
    """The body of a reply to a guarded request."""


def is_public(text: str) -> bool:
    """Whether an IP address is on the public internet. An IPv4 address that an IPv6 address embeds must be public
    too."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return False
        if (inner := _embedded_ipv4(address)) is not None:
            return is_public(str(inner))
        if address not in _GLOBAL_IPV6:
            return False
    return not any(address in block for block in _BLOCKED_NETWORKS if block.version == address.version)


class EgressRefused(Exception):
    """A URL may not be reached, or could not be fetched. The message is for the client."""


_DEFAULT_PORTS = {"http": 80, "https": 443}


def _embedded_ipv4(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _SIX_TO_FOUR:
        return address.sixtofour
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None


def parse_url(url: str) -> httpx2.URL:
    """Returns a URL that may be fetched if its host may. Raises EgressRefused for any other."""
    if len(url) > _MAX_URL_CHARS:
        raise EgressRefused(f"the URL is longer than {_MAX_URL_CHARS} characters")
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError) as error:
        raise EgressRefused("the URL is not valid") from error
    if parsed.scheme not in _DEFAULT_PORTS:
        raise EgressRefused("the URL must begin with http:// or https://")
    if not parsed.host or "%" in parsed.host:
        raise EgressRefused("the URL has no valid host")
    if parsed.port is not None and not 0 < parsed.port < 65536:
        raise EgressRefused("the URL's port is not valid")
    if parsed.userinfo:
        raise EgressRefused("the URL must not contain a user name or password")
    return parsed


def resolve_redirect(url: httpx2.URL, location: str) -> httpx2.URL:
    """Returns the URL that a server redirects to. Raises EgressRefused if it is none."""
    try:
        return url.join(location)
    except (httpx2.InvalidURL, ValueError) as error:
        raise EgressRefused("the URL redirects to an invalid URL") from error


async def _fetch_once(sender: GuardedSender, url: httpx2.URL, max_bytes: int) -> FetchResult | str:
    """Returns the content, or the location that the server redirects to."""
    timeout = {"connect": _CONNECT_S, "read": None, "write": None, "pool": None}
    request = httpx2.Request("GET", url, headers={"accept": "*/*"}, extensions={"timeout": timeout})
    try:
        async with aclosing(await sender.send(request)) as reply:
            return await _read_result(reply, max_bytes)
    except (httpx2.ConnectTimeout, httpx2.ConnectError) as error:
        raise EgressRefused("the URL cannot be reached") from error
    except httpx2.HTTPError as error:
        raise EgressRefused("the URL's server did not send a complete reply") from error


async def _read_result(reply: httpx2.Response, max_bytes: int) -> FetchResult | str:
    headers = reply.headers
    if reply.has_redirect_location:
        return str(headers["location"])
    if reply.status_code != 200:
        raise EgressRefused(f"the URL's server replied with status {reply.status_code}")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise EgressRefused("the URL's server sent compressed content, although the request does not accept it")
    too_large = f"the content of the URL is larger than {max_bytes} bytes"
    if (declared := headers.get("content-length", "")).isdigit() and int(declared) > max_bytes:
        raise EgressRefused(too_large)
    pieces: list[bytes] = []
    size = 0
    async for piece in reply.aiter_raw():
        size += len(piece)
        if size > max_bytes:
            raise EgressRefused(too_large)
        pieces.append(piece)
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    return FetchResult(media_type, b"".join(pieces))


@cache
def _tls_context() -> ssl.SSLContext:
    return httpx2.create_ssl_context(trust_env=False)
