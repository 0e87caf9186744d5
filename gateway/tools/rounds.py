"""One round of the model as a source whose events are those of the whole reply."""

from functools import partial

from dataplane.source import Source
from dataplane.staged_source import StagedRun, StagedSource
from providers.base import Batch, Exchange, source_of
from translation.hosted.loop import ToolLoop
from translation.representation.delta_runs import DeltaRun


def round_source(loop: ToolLoop, exchange: Exchange) -> Source[Batch]:
    """Returns the events of the next round after the loop has taken them. Its deltas take the fast path where the loop
    has nothing to do with them."""
    return StagedSource(source_of(exchange), loop.feed, partial(_grant_run, loop))


def _grant_run(loop: ToolLoop, run: DeltaRun) -> DeltaRun | None:
    """Returns the run of a round as it is in the reply; None if its deltas have to be fed to the loop."""
    if (observed := loop.observe_text(run.text_key)) is None:
        return None
    text_key, observer = observed
    return StagedRun(run, text_key, (observer,))
