"""Which hosts the filters of a search allow."""

import pytest

from gateway.tools.web_search.domains import DomainRules, read_domain_rules
from translation.errors import InvalidRequest

ALLOWED = DomainRules(["example.com", "bücher.example".encode("idna").decode()], ["no.example.com"])


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("https://example.com/", True),
        ("https://EXAMPLE.com./x", True),
        ("http://a.b.example.com:8080/", True),
        ("https://bücher.example/", True),
        ("https://no.example.com/", False),
        ("https://deep.no.example.com/", False),
        ("https://evil-example.com/", False),
        ("https://example.com.evil.test/", False),
        ("https://example.com@evil.test/", False),
        ("https://evil.test/?q=example.com", False),
        ("https://evil.test/#@example.com", False),
        ("https://evil.test\\@example.com/", False),
        ("ftp://example.com/", False),
        ("javascript:alert(1)//example.com", False),
        ("", False),
    ],
)
def test_a_url_is_allowed_by_its_host_alone(url: str, is_allowed: bool) -> None:
    assert ALLOWED.allows(url) is is_allowed


def test_engines_get_few_domains_as_terms() -> None:
    assert DomainRules(["a.example", "b.example"], ["c.example"]).site_terms == (
        " site:a.example OR site:b.example -site:c.example"
    )
    assert DomainRules(["a.example"] * 4, ["c.example"] * 4).site_terms == ""


def test_domains_are_read_in_one_spelling() -> None:
    rules = read_domain_rules(
        {"filters": {"allowed_domains": ["Bücher.Example."], "blocked_domains": None}}, "tools[0]"
    )
    assert rules == DomainRules(["xn--bcher-kva.example"], ())


@pytest.mark.parametrize("domain", ["a.example", "a.example.", "A_b.example", "x-y.example", "127.0.0.1", "localhost"])
def test_a_host_is_a_domain(domain: str) -> None:
    rules = read_domain_rules({"filters": {"allowed_domains": [domain]}}, "tools[0]")
    assert rules.allowed == [domain.lower().rstrip(".")]


@pytest.mark.parametrize(
    "domain",
    [
        *("", ".", "*", "*.a.example", "a.*", ".a.example", "a..example", "-a.example", "a.example-", "a,b", "a b"),
        *("a.example,b.example", "u@a.example", "a.example:80", "a.example/x", "[::1]", "a|b", "x" * 254),
    ],
)
def test_what_is_no_host_is_refused(domain: str) -> None:
    """It would allow nothing, or block nothing, without a word."""
    with pytest.raises(InvalidRequest) as refused:
        read_domain_rules({"filters": {"blocked_domains": ["a.example", domain]}}, "tools[0]")
    assert refused.value.param == "tools[0].filters.blocked_domains[1]"
