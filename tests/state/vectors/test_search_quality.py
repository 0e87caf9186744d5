"""Searches by words find the right document of a generated set, and searches by meaning too find more."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from bench.retrieval.corpus import Question, generate_corpus
from bench.retrieval.filled_stores import open_filled_store
from bench.retrieval.quality import Quality, judge_rankings
from gateway.retrieval.embedding import Vector, pack_vector
from tests.databases import ready_sqlite

CORPUS = generate_corpus()


@pytest.mark.timeout(120)
async def test_words_find_the_right_document(tmp_path: Path) -> None:
    async with open_filled_store(ready_sqlite(tmp_path / "state.db")) as store:
        for document in CORPUS.documents:
            await store.add_file(document.id, [(document.text, None)])
        rankings = [await store.search(question.text, 10) for question in CORPUS.same_words]
    quality = judge_rankings(CORPUS.same_words, rankings)
    assert quality.first >= 0.85, quality
    assert quality.top_five >= 0.95, quality
    assert quality.ndcg >= 0.85, quality


def test_rankings_are_judged_by_the_places_of_what_is_relevant() -> None:
    question = Question("q", {"a": 3, "b": 1})
    assert judge_rankings([question], [["a", "b"]]) == Quality(1.0, 1.0, 1.0)
    worse = judge_rankings([question, question], [["x", "b", "a"], []])
    assert 0 < worse.ndcg < 0.5
    assert (worse.first, worse.top_five) == (0.0, 0.5)


def test_the_generated_set_has_one_right_document_for_each_question() -> None:
    assert (len(CORPUS.documents), len(CORPUS.same_words), len(CORPUS.other_words)) == (80, 60, 60)
    for question in (*CORPUS.same_words, *CORPUS.other_words):
        assert sorted(question.relevance.values()) == [1, 1, 1, 3]
    assert generate_corpus() == CORPUS


def embed(text: str) -> Vector:
    """Returns a vector of the pairs of letters of a text, which is some measure of its meaning."""
    pairs = [0.001] * 676
    for word in re.findall(r"[a-z]+", text.lower()):
        for first, second in pairwise(word):
            pairs[(ord(first) - 97) * 26 + ord(second) - 97] += 1
    return pack_vector(pairs)


@pytest.mark.timeout(120)
async def test_vectors_never_make_searches_by_words_much_worse(tmp_path: Path) -> None:
    async with open_filled_store(ready_sqlite(tmp_path / "state.db")) as store:
        for document in CORPUS.documents:
            await store.add_file(document.id, [(document.text, embed(document.text))])
        rankings = [await store.search(each.text, 10, embed(each.text)) for each in CORPUS.same_words]
    assert judge_rankings(CORPUS.same_words, rankings).top_five >= 0.9
