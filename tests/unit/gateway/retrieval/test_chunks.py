"""Chunks are exact slices, overlap as asked, and end where a reader would end them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.retrieval.chunks import Chunk, ChunkSizes, cut_chunks
from gateway.retrieval.word_pieces import WordPieces


def slices(text: str, sizes: ChunkSizes) -> list[str]:
    return [text[chunk.start : chunk.end] for chunk in cut_chunks(text, sizes)]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Hello, world!", ["Hello", ",", "world", "!"]),
        ("max_line_mb", ["max", "_", "line", "_", "mb"]),
        ("a" * 30, ["a" * 24, "a" * 6]),
        ("日本語 かな ไทย", [*"日本語", *"かな", *"ไทย"]),
        ("한국어 문장", ["한국어", "문장"]),
        ("नमस्ते", ["नमस्", "ते"]),
        ("cafe\u0301 👍🏽", ["cafe\u0301", "👍", "🏽"]),
        (" \n\t", []),
    ],
)
def test_pieces_are_words_signs_and_characters_without_blanks(text: str, pieces: list[str]) -> None:
    found = WordPieces(text)
    assert [text[start:end] for start, end in zip(found.starts, found.ends, strict=True)] == pieces


def test_chunks_overlap_by_the_pieces_that_were_asked_for() -> None:
    text = " ".join(f"w{n}" for n in range(25))
    assert slices(text, ChunkSizes(10, 4)) == [
        " ".join(f"w{n}" for n in range(start, min(start + 10, 25))) for start in (0, 6, 12, 18)
    ]


def test_a_chunk_ends_with_a_paragraph_rather_than_a_sentence() -> None:
    words = [f"w{n}" for n in range(20)]
    for ends, first in (
        ({15: ".", 17: "\n\n"}, 18),
        ({15: ".", 17: "."}, 18),
        ({17: "\n\n", 18: "."}, 18),
        ({3: "\n\n"}, 19),
    ):
        text = " ".join(word + ends.get(i, "") for i, word in enumerate(words))
        expected = " ".join(word + ends.get(i, "") for i, word in enumerate(words[:first])).rstrip()
        pieces = 19 + sum(end == "." for place, end in ends.items() if place < first)
        assert slices(text, ChunkSizes(pieces, 0))[0].split()[-1].rstrip(".") == expected.split()[-1].rstrip("."), ends


def test_a_chunk_ends_behind_a_sentence_without_blanks() -> None:
    text = "猫が寝る。" * 6
    assert slices(text, ChunkSizes(13, 0))[0] in ("猫が寝る。" * 2 + "猫が寝", "猫が寝る。" * 2)
    assert all(each.endswith("。") for each in slices(text, ChunkSizes(27, 0)))


def test_a_text_without_words_has_no_chunk() -> None:
    assert slices(" \n ", ChunkSizes()) == []


@given(
    st.text(st.sampled_from("ab .,\n猫。é👍\u0301ने한"), max_size=300),
    st.integers(1, 40).flatmap(lambda most: st.tuples(st.just(most), st.integers(0, most // 2))),
)
def test_chunks_cover_every_piece_within_their_bounds(text: str, sizes: tuple[int, int]) -> None:
    most, overlap = sizes
    pieces = WordPieces(text)
    starts, ends = list(pieces.starts), list(pieces.ends)
    covered = 0
    previous: Chunk | None = None
    for chunk in cut_chunks(text, ChunkSizes(most, overlap)):
        first, last = starts.index(chunk.start), ends.index(chunk.end) + 1
        assert chunk.tokens == last - first <= most
        assert len(text[chunk.start : chunk.end].split()) <= chunk.tokens
        assert first <= covered < last
        assert previous is None or (chunk.start > previous.start and covered - first <= overlap)
        covered, previous = last, chunk
    assert covered == len(pieces)
