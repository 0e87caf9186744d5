"""Decodes the chunks of llama-server's `/completion`."""

from typing import Any

import orjson
import pytest

from providers.harmony.decode import HarmonyDecoder
from providers.harmony.token_decoder import HarmonyTokenDecoder
from tests.unit.support.harmony import marked, real
from tests.unit.support.translator_drivers import collect, counting_ids, decode
from tests.upstream import harmony
from translation.errors import ProtocolViolation
from translation.representation.events import Failed, Finished, Usage
from translation.representation.profile import DEFAULT_PROFILE

ANSWER = marked("<|channel|>final<|message|>Yes")


def decoder(stop: tuple[str, ...] = ()) -> HarmonyDecoder:
    return HarmonyDecoder(real(), HarmonyTokenDecoder(real(), counting_ids(), DEFAULT_PROFILE, (), stop), 9)


def text_of(chunks: list[dict[str, Any]]) -> str:
    [item] = collect(decode(decoder(), chunks))
    text: str = item["content"][0]["text"]
    return text


def test_usage_is_the_count_of_the_server() -> None:
    [*_, last] = decode(decoder(), harmony.text_chunks("upstream"))
    assert isinstance(last, Finished)
    assert last.usage == Usage(input=9, output=6, cache_read=4, reasoning=0)


def test_usage_is_counted_by_the_gateway_if_the_server_does_not_report_it() -> None:
    [*_, last] = decode(decoder(), [{"content": "Yes", "tokens": ANSWER, "stop": True}])
    assert isinstance(last, Finished)
    assert (last.reason, last.raw_reason) == ("stop", None)
    assert last.usage == Usage(input=9, output=len(ANSWER), reasoning=0)


def test_tokens_that_a_stream_leaves_out_are_restored() -> None:
    woman, joiner = real().encode("\N{WOMAN}"), real().encode("!")
    assert len(woman) > 1
    chunks = [
        harmony.chunk("", *ANSWER[:-1], predicted=len(ANSWER) - 1),
        harmony.chunk("\N{WOMAN}", woman[-1], predicted=len(ANSWER) - 1 + len(woman)),
        harmony.chunk("!", *joiner, predicted=len(ANSWER) + len(woman)),
        harmony.last(len(ANSWER) + len(woman) + 1, tokens=[harmony.RETURN]),
    ]
    assert text_of(chunks) == "\N{WOMAN}!"


def test_control_tokens_are_used_unchanged() -> None:
    chunks = [harmony.chunk("Yes", *ANSWER, predicted=len(ANSWER) + 3), harmony.last(len(ANSWER) + 4)]
    assert text_of(chunks) == "Yes"


def test_a_server_that_continues_after_the_end_is_not_waited_for() -> None:
    told = decoder()
    assert not any(isinstance(event, Finished) for event in told.feed(harmony.chunk("Yes", *ANSWER, harmony.RETURN)))
    [last] = [event for event in told.feed(harmony.chunk("No", *ANSWER)) if isinstance(event, Finished)]
    assert last.reason == "stop"
    assert told.feed(harmony.chunk("No", *ANSWER)) == []
    assert told.decode_payloads([b"what is this"]) == []
    assert told.finish() == []


def test_an_answer_that_ends_with_its_message_is_over() -> None:
    events = decoder().feed(harmony.chunk("Yes", *ANSWER, harmony.END))
    assert isinstance(events[-1], Finished)


def test_a_stop_string_ends_the_answer_at_once() -> None:
    events = decoder(stop=("es",)).feed(harmony.chunk("Yes", *ANSWER))
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "stop"


def test_an_answer_cut_at_the_limit_is_incomplete() -> None:
    [*_, last] = decode(decoder(), [harmony.chunk("Yes", *ANSWER), harmony.last(4, "limit")])
    assert isinstance(last, Finished)
    assert last.reason == "length"


def test_a_message_that_is_begun_and_never_written_fails() -> None:
    begun = marked("<|channel|>final")
    [*_, failed] = decode(decoder(), [harmony.chunk("final", *begun, harmony.RETURN), harmony.last(3)])
    assert isinstance(failed, Failed)
    assert failed.code == "upstream_garbled"
    [*_, last] = decode(decoder(), [harmony.chunk("final", *begun), harmony.last(2, "limit")])
    assert isinstance(last, Finished)
    assert last.reason == "length"


def test_a_stream_that_breaks_off_fails() -> None:
    [*_, last] = decode(decoder(), [harmony.chunk("Yes", *ANSWER)])
    assert isinstance(last, Failed)
    assert last.code == "upstream_truncated"


def test_an_error_in_the_stream_fails() -> None:
    told = decoder()
    [failed] = told.feed(harmony.error(429, "slow down"))
    assert isinstance(failed, Failed)
    assert failed.code == "rate_limited"
    assert told.finish() == []


BROKEN: dict[str, Any] = {
    "no object": [1],
    "nothing": {},
    "no tokens for its text": {"content": "Yes"},
    "no text": {"tokens": ANSWER, "content": None},
    "tokens that are no numbers": {"content": "", "tokens": ["a"]},
    "a token below none": {"content": "", "tokens": [-1]},
    "a list that is none": {"content": "", "tokens": 7},
}


@pytest.mark.parametrize("chunk", BROKEN.values(), ids=BROKEN)
def test_invalid_completions_are_reported(chunk: Any) -> None:
    with pytest.raises(ProtocolViolation):
        decoder().feed(chunk)


@pytest.mark.parametrize("timings", [None, [], {}, {"cache_n": -1}, {"cache_n": 10**9}])
def test_counts_that_make_no_sense_are_left_out_or_bounded(timings: Any) -> None:
    [*_, last] = decoder().feed({**harmony.whole_text("upstream"), "timings": timings, "tokens_evaluated": "many"})
    assert isinstance(last, Finished)
    assert last.usage is not None
    assert last.usage.input == 9
    assert last.usage.cache_read in (None, 0, 9)


@pytest.mark.parametrize("place", range(len(ANSWER) + 1))
def test_tokens_outside_the_vocabulary_are_no_failure_of_ours(place: int) -> None:
    tokens = [*ANSWER[:place], 2**31 - 1, *ANSWER[place:]]
    events = decode(decoder(), [orjson.loads(orjson.dumps(harmony.chunk("x", *tokens))), harmony.last(5)])
    assert isinstance(events[-1], Finished | Failed)
