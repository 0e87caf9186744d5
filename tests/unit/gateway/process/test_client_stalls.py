"""A client is stalled once a connection has waited for it without progress in some looks in a row."""

from asyncio import Transport
from collections.abc import Sequence

import pytest

from gateway.process.client_stalls import STALL_LOOKS, ClientStalls


def find_stall(sizes: Sequence[int]) -> int | None:
    """Returns the number of the look at which the client of one connection is stalled. 0 is one that waits for
    nothing."""
    stalls, transport = ClientStalls(), Transport()
    for look, size in enumerate(sizes, 1):
        if stalls.find({transport: size} if size else {}):
            return look
    return None


@pytest.mark.parametrize(
    ("sizes", "stall"),
    [
        pytest.param([9] * STALL_LOOKS, STALL_LOOKS, id="reads nothing"),
        pytest.param([9] * (STALL_LOOKS - 1), None, id="reads nothing, but not for long enough"),
        pytest.param(list(range(1, 999)), STALL_LOOKS, id="reads nothing while more is sent"),
        pytest.param(list(range(999, 0, -1)), None, id="reads slowly"),
        pytest.param([*[9] * (STALL_LOOKS - 1), 8, *[8] * (STALL_LOOKS - 1)], 2 * STALL_LOOKS - 1, id="stops reading"),
        pytest.param([*[9] * (STALL_LOOKS - 1), 0, *[9] * (STALL_LOOKS - 1)], None, id="has read all in between"),
        pytest.param([0] * 999, None, id="has read all"),
    ],
)
def test_the_look_at_which_a_client_is_stalled(sizes: list[int], stall: int | None) -> None:
    assert find_stall(sizes) == stall


def test_only_the_clients_without_progress_are_stalled() -> None:
    stalls, reading, stalled = ClientStalls(), Transport(), Transport()
    found = [stalls.find({reading: 999 - look, stalled: 9}) for look in range(STALL_LOOKS)]
    assert found == [[]] * (STALL_LOOKS - 1) + [[stalled]]
