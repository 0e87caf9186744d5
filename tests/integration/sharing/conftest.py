"""Fixtures of the tests of names with several upstreams."""

from collections.abc import Sequence

import pytest

from gateway.upstreams.candidates import Candidate
from gateway.upstreams.waiting_turns import WaitingTurns


@pytest.fixture
def queued(monkeypatch: pytest.MonkeyPatch) -> list[WaitingTurns]:
    """Returns a list with one entry for each turn that began to wait in a gateway of this process. Its figures are read
    anew once a second only."""
    begun: list[WaitingTurns] = []
    wait_for_slot = WaitingTurns.wait_for_slot

    async def note_wait(self: WaitingTurns, candidates: Sequence[Candidate], seconds: float) -> Candidate | None:
        begun.append(self)
        return await wait_for_slot(self, candidates, seconds)

    monkeypatch.setattr(WaitingTurns, "wait_for_slot", note_wait)
    return begun
