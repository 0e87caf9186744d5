"""The bound of idempotency keys, and how often they are counted."""

from typing import Any, cast

import pytest

from gateway.errors import TooManyKeys
from gateway.service.idempotency.keys import KeyQuota

LIMIT = 3


class Keys:
    """A store of keys, and a clock."""

    def __init__(self) -> None:
        self.stored = 0
        self.counted = 0
        self.now = 0.0

    async def count_keys(self, owner: str, limit: int) -> int:
        assert (owner, limit) == ("ann", LIMIT)
        self.counted += 1
        return min(self.stored, limit)


@pytest.fixture
def keys() -> Keys:
    return Keys()


async def test_keys_are_counted_once_a_minute(keys: Keys) -> None:
    quota = KeyQuota(LIMIT, lambda: keys.now)
    for now, counted in ((0.0, 1), (59.0, 1), (60.0, 2)):
        keys.now = now
        await quota.reserve(cast("Any", keys), "ann")
        assert keys.counted == counted


async def test_keys_of_this_process_are_known_at_once(keys: Keys) -> None:
    quota = KeyQuota(LIMIT, lambda: keys.now)
    for _ in range(LIMIT):
        await quota.reserve(cast("Any", keys), "ann")
    keys.stored = LIMIT
    for _ in range(5):
        with pytest.raises(TooManyKeys):
            await quota.reserve(cast("Any", keys), "ann")
    assert keys.counted == 1


async def test_an_api_key_may_have_a_limit_of_its_own(keys: Keys) -> None:
    quota = KeyQuota(1, lambda: keys.now)
    for _ in range(LIMIT):
        await quota.reserve(cast("Any", keys), "ann", LIMIT)
    with pytest.raises(TooManyKeys, match=str(LIMIT)):
        await quota.reserve(cast("Any", keys), "ann", LIMIT)


async def test_an_owner_at_the_limit_is_counted_again_soon(keys: Keys) -> None:
    quota = KeyQuota(LIMIT, lambda: keys.now)
    keys.stored = LIMIT
    with pytest.raises(TooManyKeys):
        await quota.reserve(cast("Any", keys), "ann")
    keys.stored = 0
    keys.now = 1.0
    await quota.reserve(cast("Any", keys), "ann")
    assert keys.counted == 2
