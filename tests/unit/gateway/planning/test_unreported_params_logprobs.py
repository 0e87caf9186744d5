"""gateway/planning/unreported_params.py: missing log probabilities are reported as a loss."""

from collections.abc import Sequence

import pytest

from gateway.planning.unreported_params import LogprobsCheck
from gateway.replies.loss_header import collect_facts, collect_unreported
from translation.representation.delta_runs import TextKey
from translation.representation.events import (
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    PartEnded,
    PartStarted,
    Started,
)
from translation.representation.json_types import Json

LOGPROBS: list[Json] = [{"token": "a", "logprob": -1.0, "bytes": [97], "top_logprobs": []}]
END = Finished("stop")


def text(logprobs: list[Json] | None) -> list[Event]:
    """A reply of one text in two pieces, of which the second has these."""
    return [
        Started("m"),
        ItemStarted(0, {"type": "message"}),
        PartStarted(0, 0, {"type": "output_text"}),
        Delta(0, 0, "a"),
        Delta(0, 0, "b", logprobs),
        PartEnded(0, 0),
        ItemEnded(0),
    ]


CALL: list[Event] = [ItemStarted(0, {"type": "function_call"}), Delta(0, None, "{}"), ItemEnded(0)]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([*text(None), END], "include"),
        ([*text(LOGPROBS), END], None),
        ([*CALL, END], None),
        ([*text(None), Failed("upstream_error", "no")], None),
    ],
    ids=["a text without any", "a text with some", "no text", "a reply that failed"],
)
def test_a_reply_reports_missing_log_probabilities(events: Sequence[Event], expected: str | None) -> None:
    watch = LogprobsCheck("include", None)
    batches = [list(watch.feed([event])) for event in events]
    assert collect_unreported(collect_facts(batches[-1])) == ([expected] if expected else [])
    assert batches[-1][-1] == events[-1]
    assert [each for batch in batches[:-1] for each in batch] == events[:-1]


class Doubling:
    """A stage that returns every event twice."""

    def feed(self, batch: Sequence[Event]) -> Sequence[Event]:
        return [each for event in batch for each in (event, event)]

    def delta_observers(self, _text_key: TextKey) -> None:
        return None


def test_the_check_follows_a_reply_whose_calls_are_mapped() -> None:
    assert LogprobsCheck("logprobs", Doubling()).feed(CALL[1:2]) == [CALL[1], CALL[1]]
    assert LogprobsCheck("logprobs", Doubling()).feed([]) == []
