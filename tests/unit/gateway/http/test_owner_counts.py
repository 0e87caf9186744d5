"""Open requests of owners: at which limit one more is refused."""

import pytest

from gateway.errors import TooManyRequests
from gateway.http.owner_counts import ON_END, OwnerCounts


def test_a_key_may_have_a_limit_of_its_own() -> None:
    counts = OwnerCounts(1, TooManyRequests)
    counts.add("ann")
    counts.add("ann", 2)
    for own_limit, named in ((2, "2 open requests"), (None, "1 open requests")):
        with pytest.raises(TooManyRequests, match=named):
            counts.add("ann", own_limit)
    counts.add("bob")
    counts.remove("ann")
    counts.add("ann", 2)


def test_a_request_that_is_refused_by_its_own_limit_is_not_counted() -> None:
    counts = OwnerCounts(5, TooManyRequests)
    scope: dict[str, object] = {}
    counts.add_until_end("ann", scope, 1)
    counts.add_until_end("ann", scope, 1)  # authenticated twice
    with pytest.raises(TooManyRequests):
        counts.add_until_end("ann", {}, 1)
    end = scope[ON_END]
    assert callable(end)
    end()
    counts.add_until_end("ann", {}, 1)
