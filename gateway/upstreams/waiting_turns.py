"""The turns of one name that wait because all of its upstreams are full. The turn that has waited longest is served
first."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from gateway.upstreams.candidates import Candidate
from gateway.upstreams.load import ProviderLoad


class _WaitingTurn:
    __slots__ = ("candidates", "granted")

    def __init__(self, candidates: Sequence[Candidate], granted: asyncio.Future[Candidate]) -> None:
        self.candidates = candidates
        self.granted = granted


class WaitingTurns:
    """The queue of one name in one process."""

    def __init__(self) -> None:
        self._turns: dict[_WaitingTurn, None] = {}
        self._loads: Counter[ProviderLoad] = Counter()
        """The loads of the upstreams for which turns wait, with the number of these turns."""

    def __len__(self) -> int:
        return len(self._turns)

    async def wait_for_slot(self, candidates: Sequence[Candidate], seconds: float) -> Candidate | None:
        """Waits until one of the candidates has a free slot, which is then taken. Returns None if none has in time."""
        turn = _WaitingTurn(candidates, asyncio.get_running_loop().create_future())
        self._turns[turn] = None
        loads = {candidate.load: None for candidate in candidates}
        for load in loads:
            self._loads[load] += 1
            load.add_waiter(self)
        try:
            async with asyncio.timeout(seconds):
                return await turn.granted
        except TimeoutError:
            # A slot may have been granted at the last moment.
            return turn.granted.result() if turn.granted.done() and not turn.granted.cancelled() else None
        except asyncio.CancelledError:
            if turn.granted.done() and not turn.granted.cancelled():
                turn.granted.result().load.end_attempt()
            raise
        finally:
            self._turns.pop(turn, None)
            for load in loads:
                self._loads[load] -= 1
                if not self._loads[load]:
                    del self._loads[load]
                    load.remove_waiter(self)

    def offer_slot(self, load: ProviderLoad) -> bool:
        """Gives a free slot to the first turn that can use it. Returns whether a turn took it."""
        now = asyncio.get_running_loop().time()
        for turn in self._turns:
            if turn.granted.done():
                continue
            for candidate in turn.candidates:
                if candidate.load is load and candidate.find_state(now) == "available":
                    load.begin_attempt()
                    turn.granted.set_result(candidate)
                    del self._turns[turn]
                    return True
        return False
