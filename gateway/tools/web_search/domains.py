"""Decides which hosts a search may find and open, by the `filters` of the tool in the request."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from providers.egress import EgressRefused, parse_url
from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.validation import refuse_unknown_names

_MAX_DOMAINS: Final = 100
_MAX_DOMAIN_CHARS: Final = 253
_MAX_SITE_TERMS: Final = 3
"""At most so many domains are added to the query. Engines do not take longer filters."""

_KEYS: Final = ("allowed_domains", "blocked_domains")

_NOT_OF_HOSTS: Final = frozenset("/:@?#\\ ")
"""Characters that a URL has before or behind its host."""

_LABEL: Final = r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?"
_HOST: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")


@dataclass(frozen=True, slots=True)
class DomainRules:
    """The domains that may be used, and those that may not. A domain stands for its subdomains too."""

    allowed: Sequence[str] = ()
    blocked: Sequence[str] = ()

    def allows(self, url: str) -> bool:
        """Whether a URL may be found and opened: http or https, without a user, and of a host that the rules allow."""
        try:
            parsed = parse_url(url)
        except EgressRefused:
            return False
        return self.allows_host(parsed.raw_host.decode("ascii"))

    def allows_host(self, host: str) -> bool:
        """Whether a host may be used."""
        name = host.lower().rstrip(".")
        if _is_in(name, self.blocked):
            return False
        return not self.allowed or _is_in(name, self.allowed)

    @property
    def site_terms(self) -> str:
        """The terms that restrict a query to the rules, for engines without filters; empty if there are too many."""
        terms = ""
        if 0 < len(self.allowed) <= _MAX_SITE_TERMS:
            terms += " " + " OR ".join(f"site:{domain}" for domain in self.allowed)
        if 0 < len(self.blocked) <= _MAX_SITE_TERMS:
            terms += "".join(f" -site:{domain}" for domain in self.blocked)
        return terms


def read_domain_rules(tool: Json, param: str) -> DomainRules:
    """Returns the rules of a tool. Raises InvalidRequest for filters that are no lists of domains."""
    filters = tool.get("filters")
    if filters is None:
        return DomainRules()
    if not isinstance(filters, dict):
        raise InvalidRequest("filters must be an object", param=f"{param}.filters", code="invalid_type")
    refuse_unknown_names(filters, _KEYS, f"{param}.filters.")  # a search without them would find what it must not
    return DomainRules(*(_read_domains(filters.get(key), f"{param}.filters.{key}") for key in _KEYS))


def _read_domains(value: Any, param: str) -> Sequence[str]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(domain, str) for domain in value):
        raise InvalidRequest("write a list of domains, such as example.com", param=param, code="invalid_type")
    if len(value) > _MAX_DOMAINS:
        raise InvalidRequest(f"at most {_MAX_DOMAINS} domains are allowed, and these are {len(value)}", param=param)
    return [_read_domain(domain, f"{param}[{position}]") for position, domain in enumerate(value)]


def _read_domain(domain: str, param: str) -> str:
    """Returns a domain in the form in which hosts are compared. It has no scheme, port, path or user."""
    try:
        parsed = parse_url(f"http://{domain}/")
    except EgressRefused:
        parsed = None
    host = "" if parsed is None or set(domain) & _NOT_OF_HOSTS else parsed.raw_host.decode("ascii").lower().rstrip(".")
    if not (_HOST.fullmatch(host) and len(domain) <= _MAX_DOMAIN_CHARS):
        message = f"{domain[:80]!r} is no domain: write a host without a scheme and a path, such as example.com"
        raise InvalidRequest(message, param=param)
    return host


def _is_in(host: str, domains: Collection[str]) -> bool:
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)
