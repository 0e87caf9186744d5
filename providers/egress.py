"""The one way to a URL that the operator did not write: an image in a request, a page a model asks for.

A client could name a server that only this machine can reach. So a host is resolved once, every address it has must be
one of the public internet, and the connection goes to the very address that was checked; a redirect is a new URL.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple, TypeAlias

import httpx

from translation.errors import InvalidRequest

HostResolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""(host, port) -> its addresses. Raises OSError, UnicodeError for what is no name."""

_Address: TypeAlias = IPv4Address | IPv6Address

_MAX_REDIRECTS = 5
_MAX_URL_CHARS = 8192
_MAX_ADDRESSES = 4
"""Addresses of one host that are tried."""

_CONNECT_S = 5.0

DEFAULT_MAX_BYTES = 20 * 1024 * 1024
DEFAULT_DEADLINE_S = 30.0
"""Where the operator says nothing."""

_HEADERS = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "responses-gateway"}
"""Nothing compressed: what a few bytes unpack to has no limit."""

_BLOCKED_NETWORKS: Sequence[IPv4Network | IPv6Network] = [
    ip_network(block)
    for block in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT, and Alibaba's metadata
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's own services, at a public address
        "169.254.0.0/16",  # link-local, and most clouds' metadata
        "172.16.0.0/12",
        "192.0.0.0/24",  # Oracle's metadata among others
        "192.0.2.0/24",
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",  # multicast, reserved, broadcast
        "2001::/23",  # Teredo among others: an IPv4 address inside, in disguise
        "2001:db8::/32",
        "3fff::/20",
    )
]
"""https://www.iana.org/assignments/iana-ipv4-special-registry and -ipv6-special-registry, and clouds' own addresses."""

_GLOBAL_IPV6 = IPv6Network("2000::/3")
_SIX_TO_FOUR = IPv6Network("2002::/16")
_NAT64 = IPv6Network("64:ff9b::/96")


class FetchResult(NamedTuple):
    """What a URL led to. `media_type` is in lower case and without parameters; empty where the server did not say."""

    media_type: str
    content: bytes


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """The addresses of a host by the system's resolver."""
    entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


class EgressClient:
    """Fetches from the public internet. `allow`: hosts of the operator's own that may be anywhere.

    `max_bytes` and `deadline_s` are what the operator grants one URL, and all URLs of one request, for those who fetch.
    """

    def __init__(
        self,
        *,
        allow: Collection[str] = (),
        max_bytes: int = DEFAULT_MAX_BYTES,
        deadline_s: float = DEFAULT_DEADLINE_S,
        resolver: HostResolver = resolve_host,
    ) -> None:
        self.max_bytes = max_bytes
        self.deadline_s = deadline_s
        self._allow = frozenset(host.lower() for host in allow)
        self._resolver = resolver

    async def fetch(self, url: str, *, max_bytes: int, deadline_s: float, param: str | None = None) -> FetchResult:
        """What is at `url`, redirects followed. `param` is where in the request it came from.

        Raises InvalidRequest for a URL that is not http(s) or leads to a private address, and where nothing is to be
        had: unreachable, not found, over `max_bytes`, not there within `deadline_s`.
        """
        try:
            async with asyncio.timeout(deadline_s):
                return await self._fetch_with_redirects(url, max_bytes)
        except TimeoutError:
            raise InvalidRequest(f"the URL did not answer within {deadline_s:g} s", param=param) from None
        except _FetchRefused as refused:
            raise InvalidRequest(str(refused), param=param) from refused.__cause__

    async def _fetch_with_redirects(self, url: str, max_bytes: int) -> FetchResult:
        limits = httpx.Limits(max_keepalive_connections=0)
        # No environment: a proxy would resolve the name again, to whatever it likes.
        async with httpx.AsyncHTTPTransport(verify=_tls_context(), trust_env=False, limits=limits) as transport:
            target = _parse_url(url)
            for _ in range(_MAX_REDIRECTS + 1):
                result = await self._fetch_once(transport, target, max_bytes)
                if isinstance(result, FetchResult):
                    return result
                target = _parse_url(str(_resolve_redirect(target, result)))
        raise _FetchRefused(f"the URL redirects more than {_MAX_REDIRECTS} times")

    async def _fetch_once(
        self, transport: httpx.AsyncHTTPTransport, url: httpx.URL, max_bytes: int
    ) -> "FetchResult | str":
        """What is there, or where it says to look instead."""
        failure: Exception | None = None
        for address in (await self._resolve_public(url))[:_MAX_ADDRESSES]:
            request = httpx.Request(
                "GET",
                url.copy_with(host=address),
                headers={**_HEADERS, "host": url.netloc.decode("ascii")},
                extensions={
                    "sni_hostname": url.raw_host.decode("ascii"),
                    "timeout": {"connect": _CONNECT_S, "read": None, "write": None, "pool": None},
                },
            )
            try:
                reply = await transport.handle_async_request(request)
            except (httpx.ConnectTimeout, httpx.ConnectError) as error:
                failure = error
                continue
            except httpx.HTTPError as error:
                raise _FetchRefused("the URL's server broke off") from error
            try:
                return await _read_result(reply, max_bytes)
            except httpx.HTTPError as error:
                raise _FetchRefused("the URL's server broke off") from error
            finally:
                await reply.aclose()
        raise _FetchRefused("the URL cannot be reached") from failure

    async def _resolve_public(self, url: httpx.URL) -> Sequence[str]:
        """Where the host is; all of it must be public."""
        try:
            addresses = await self._resolver(url.raw_host.decode("ascii"), url.port or _DEFAULT_PORTS[url.scheme])
        except (OSError, UnicodeError) as error:
            raise _FetchRefused("the URL's host is not known") from error
        if url.host.lower() not in self._allow and not all(map(is_public, addresses)):
            # Which address it is stays unsaid: names inside a network are not for clients to look up.
            raise _FetchRefused("the URL leads to an address that is not of the public internet")
        return addresses


def is_public(text: str) -> bool:
    """Whether an address is one of the public internet, also by way of the IPv4 address that it hides."""
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


class _FetchRefused(Exception):
    pass


_DEFAULT_PORTS = {"http": 80, "https": 443}


def _embedded_ipv4(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _SIX_TO_FOUR:
        return address.sixtofour
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None


def _parse_url(url: str) -> httpx.URL:
    if len(url) > _MAX_URL_CHARS:
        raise _FetchRefused(f"the URL is longer than {_MAX_URL_CHARS} characters")
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError) as error:
        raise _FetchRefused("the URL is not one") from error
    if parsed.scheme not in _DEFAULT_PORTS:
        raise _FetchRefused("the URL must begin with http:// or https://")
    if not parsed.host or "%" in parsed.host:
        raise _FetchRefused("the URL has no host that can be looked up")
    if parsed.port is not None and not 0 < parsed.port < 65536:
        raise _FetchRefused("the URL's port is none")
    if parsed.userinfo:
        raise _FetchRefused("the URL must not hold a user name or password")
    return parsed


def _resolve_redirect(url: httpx.URL, location: str) -> httpx.URL:
    try:
        return url.join(location)
    except (httpx.InvalidURL, ValueError) as error:
        raise _FetchRefused("the URL redirects to something that is no URL") from error


async def _read_result(reply: httpx.Response, max_bytes: int) -> "FetchResult | str":
    headers = reply.headers
    if reply.has_redirect_location:
        return str(headers["location"])
    if reply.status_code != 200:
        raise _FetchRefused(f"the URL's server answered with status {reply.status_code}")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise _FetchRefused("the URL's server answered compressed, which it was not asked for")
    too_large = f"what the URL leads to is larger than {max_bytes} bytes"
    if (declared := headers.get("content-length", "")).isdigit() and int(declared) > max_bytes:
        raise _FetchRefused(too_large)
    pieces: list[bytes] = []
    size = 0
    async for piece in reply.aiter_raw():
        size += len(piece)
        if size > max_bytes:
            raise _FetchRefused(too_large)
        pieces.append(piece)
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    return FetchResult(media_type, b"".join(pieces))


@cache
def _tls_context() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)
