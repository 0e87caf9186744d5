"""Characters that are split over two chunks."""

import json
from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from translation.decoding.surrogates import SurrogateJoiner


def escape(text: str) -> bytes:
    """A chunk with the text, as servers write it that escape everything."""
    return json.dumps({"a": [{"text": text}], "n": 1}).encode()


def texts_of(*texts: str) -> list[str]:
    joiner = SurrogateJoiner()
    return [orjson.loads(joiner.rewrite(escape(text)))["a"][0]["text"] for text in texts]


def halves(text: str) -> str:
    """The text with each half of a pair as a character of its own."""
    units = text.encode("utf-16-le")
    return "".join(map(chr, (int.from_bytes(units[at : at + 2], "little") for at in range(0, len(units), 2))))


def test_halves_are_joined_in_the_later_chunk() -> None:
    assert texts_of("a\ud83d", "\ude00b") == ["a", "😀b"]
    assert texts_of("\ud83d", "", "\ude00\ud83d", "\ude00") == ["", "", "😀", "😀"]


def test_halves_belong_to_their_place() -> None:
    joiner = SurrogateJoiner()
    assert joiner.rewrite(b'{"a": "\\ud83d"}') == b'{"a":""}'
    assert joiner.rewrite(b'{"b": "\\ud83d", "c": [null]}') == b'{"b":"","c":[null]}'
    assert joiner.has_halves
    assert joiner.rewrite(b'{"a": "\\ude00"}') == '{"a":"😀"}'.encode()
    assert joiner.rewrite(b'{"b": "\\ude00"}') == '{"b":"😀"}'.encode()
    assert not joiner.has_halves


@pytest.mark.parametrize("text", ["\ude00", "a\ud83db", "\ud83d\ud83d"])
def test_a_chunk_with_half_a_character_within_its_text_stays_invalid(text: str) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        texts_of(text)


def test_a_character_whose_second_half_does_not_follow_is_not_complete() -> None:
    joiner = SurrogateJoiner()
    joiner.rewrite(escape("\ud83d"))
    other = escape("b")
    assert joiner.rewrite(other) is other
    assert joiner.has_halves


@pytest.mark.parametrize(
    "payload",
    [
        b"{",
        b'{"a": "\\ud83d"',
        b'{"a": "\\ud83d", "b": NaN}',
        b'{"a": "\\ud83d\xff"}',
        b'{"\\ud83d": 1}',
        b'["\\ud83d",' + b"[" * 100_000,
    ],
)
def test_invalid_json_is_unchanged(payload: bytes) -> None:
    assert SurrogateJoiner().rewrite(payload) is payload


def test_a_half_beside_an_integer_beyond_64_bits_is_unchanged() -> None:
    payload = b'{"text": "\\ud83d", "n": 18446744073709551616}'
    assert SurrogateJoiner().rewrite(payload) is payload


def test_only_chunks_with_halves_are_rewritten() -> None:
    joiner = SurrogateJoiner()
    for payload in (escape("a"), escape("😀"), escape("é"), b"[DONE]"):
        assert joiner.rewrite(payload) is payload


def test_whole_characters_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("translation.decoding.surrogates.json", None)
    for text in ("😀", "\\ud83d", 'a😀😀\\\n"é', "\\\\\\ud83d\\"):
        payload = escape(text)
        assert SurrogateJoiner().rewrite(payload) is payload


@given(st.text(alphabet="a\\ud8e0😀\ud83d\ude00", max_size=12))
def test_a_chunk_is_rewritten_only_if_a_half_stands_alone(text: str) -> None:
    payload = escape(text)
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert (SurrogateJoiner().rewrite(payload) is payload) or "\ufffd" in joined


@given(st.text(alphabet="a😀𝄞é", max_size=12), st.lists(st.integers(0, 24), max_size=6))
def test_every_split_between_halves_gives_the_text(text: str, cuts: list[int]) -> None:
    units = halves(text)
    places = sorted({0, len(units), *(cut for cut in cuts if cut < len(units))})
    assert "".join(texts_of(*(units[start:end] for start, end in pairwise(places)))) == text
