"""Applies stop sequences to the replies of upstreams that have none themselves."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from dataplane.staged_source import StagedSource
from gateway.planning.resolver import Target
from providers.base import Batch, Exchange, as_batch_source
from translation.errors import Unrepresentable
from translation.hygiene.stop_sequences import StopSequenceCutter
from translation.representation.delta_runs import DeltaRun
from translation.representation.turn import Turn

_PARAM: Final = "stop"


def sends_stop(target: Target) -> bool:
    """Whether the upstream ends its replies at stop sequences itself."""
    return target.capabilities.stop_sequences or _PARAM in target.profile.extra_params


def remove_stop(turn: Turn) -> Turn:
    """Returns the turn without its stop sequences."""
    return replace(turn, sampling={name: value for name, value in turn.sampling.items() if name != _PARAM})


def require_short_sequences(sequences: Sequence[str], target: Target) -> None:
    """Raises Unrepresentable if the sequences are so long that each piece of a reply would cost too much."""
    limit = target.profile.max_stop_chars
    if sum(map(len, sequences)) > limit:
        raise Unrepresentable(
            "the gateway applies the stop sequences of this model itself, which have at most "
            f"{limit} characters together (max_stop_chars): send fewer or shorter ones",
            param=_PARAM,
        )


class StoppedExchange(StagedSource):
    """An exchange whose reply ends before the first stop sequence. The upstream's reply is then aborted."""

    def __init__(self, exchange: Exchange, sequences: Sequence[str]) -> None:
        self._cutter = StopSequenceCutter(sequences)
        super().__init__(as_batch_source(exchange), self._cutter.feed, partial(_grant_delta_run, self._cutter))
        self.losses: Final = exchange.losses

    @property
    def ended(self) -> bool:
        return self._cutter.is_met or self._source.ended

    async def close(self, *, whole: bool = False) -> None:
        # What follows a stop sequence may be long, and generating it costs money.
        await self._source.close(whole=whole and (self._source.ended or not self._cutter.is_met))

    def batches(self) -> AsyncGenerator[Batch, None]:
        return self.iterate()


def _grant_delta_run(cutter: StopSequenceCutter, run: DeltaRun) -> DeltaRun | None:
    """Returns the run unless its text may have a stop sequence."""
    return None if cutter.inspects(run.text_key) else run
