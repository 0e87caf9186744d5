"""The benchmark notices an answer that is not the upstream's: a fast wrong answer is no figure."""

from itertools import pairwise

import pytest

from bench.load.replies import Model, build_stream_writes, build_whole_reply, find_fault, parse_delays_s, stamp_write
from providers.base import Dialect

MODEL = Model.named("bench-4")
DIALECTS: tuple[Dialect, ...] = ("responses", "chat", "messages")


def streamed(dialect: Dialect, model: Model = MODEL) -> bytes:
    """The body of a streamed reply, without its HTTP framing."""
    frames = b"".join(build_stream_writes(model.deltas, dialect, model.kind)).split(b"\r\n\r\n", 1)[1]
    return b"".join(frames.split(b"\r\n")[1::2])


def whole(dialect: Dialect, model: Model = MODEL) -> bytes:
    return build_whole_reply(model.deltas, dialect).split(b"\r\n\r\n", 1)[1]


@pytest.mark.parametrize("name", ["bench-4", "bench-128"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_upstreams_own_answers_are_right(dialect: Dialect, name: str) -> None:
    model = Model.named(name)
    assert find_fault(streamed(dialect, model), model, dialect=dialect, streamed=True) is None
    assert find_fault(whole(dialect, model), model, dialect=dialect, streamed=False) is None


@pytest.mark.parametrize("kind", ["reasoning", "arguments"])
@pytest.mark.parametrize("dialect", ["chat", "messages"])
def test_streams_of_other_kinds_are_right(dialect: Dialect, kind: str) -> None:
    model = Model.named(f"bench-128-{kind}")
    assert find_fault(streamed(dialect, model), model, dialect=dialect, streamed=True) is None


@pytest.mark.parametrize("dialect", DIALECTS)
def test_texts_have_every_kind_of_character_in_the_escapes_of_python(dialect: Dialect) -> None:
    body = streamed(dialect, Model.named("bench-128"))
    assert body.isascii()
    for escaped in (b'"\\n"', b'\\"quoted\\"', b"C:\\\\dir\\\\", b"\\u00e9", b"\\ud83d\\ude00"):
        assert body.count(escaped) >= 2, escaped


def test_texts_may_be_escaped_differently() -> None:
    model = Model.named("bench-128")
    body = streamed("chat", model).replace(b"\\ud83d\\ude00", "😀".encode()).replace(b"\\u00e9", "é".encode())
    assert find_fault(body, model, dialect="chat", streamed=True) is None
    broken = body.replace("😀".encode(), b"\\ud83d", 1)
    assert find_fault(broken, model, dialect="chat", streamed=True)


CUTS = {
    "a delta is missing": lambda body: body.replace(b" token0002", b"", 1),
    "a delta came twice": lambda body: body.replace(b" token0002", b" token0002 token0002", 1),
    "the last frame is missing": lambda body: body.rstrip().rpartition(b"\n\n")[0] + b"\n\n",
    "it ended in a failure": lambda body: body.replace(b"response.completed", b"response.failed").replace(
        b'_reason":"', b'_reason":"in_'
    ),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_a_stream_is_wrong_when(cut, dialect: Dialect) -> None:
    assert find_fault(cut(streamed(dialect)), MODEL, dialect=dialect, streamed=True)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_whole_answer_is_wrong_when_its_text_is_another(dialect: Dialect) -> None:
    assert find_fault(whole(dialect).replace(b"token0001", b"token1111"), MODEL, dialect=dialect, streamed=False)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stamped_stream_has_the_time_of_each_delta(dialect: Dialect) -> None:
    model = Model.named("bench-4-50ps-stamped")
    writes = [stamp_write(write, 100 + at) for at, write in enumerate(build_stream_writes(4, dialect))]
    assert list(map(len, writes)) == list(map(len, build_stream_writes(4, dialect)))
    body = b"".join(b"".join(writes).split(b"\r\n\r\n", 1)[1].split(b"\r\n")[1::2])
    assert find_fault(body, model, dialect=dialect, streamed=True) is None
    delays = parse_delays_s(body, 200)
    assert len(delays) == 4
    assert [before - after for before, after in pairwise(delays)] == pytest.approx([1, 1, 1])
    assert find_fault(body.replace(b'" 1', b'" x', 1), model, dialect=dialect, streamed=True)


def test_a_delay_outlasts_the_clock_of_the_stamps() -> None:
    assert parse_delays_s(b'"delta":" 999999990"', 1000.00001) == pytest.approx([20e-6])


def test_a_model_of_another_name_is_refused() -> None:
    with pytest.raises(ValueError, match="gpt-5 is not"):
        Model.named("gpt-5")
