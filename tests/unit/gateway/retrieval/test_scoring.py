"""Scores lie between 0 and 1, and say what share of a query a chunk covers."""

from itertools import pairwise

import pytest

from gateway.retrieval.scoring import Corpus, QueryScorer, fuse_ranks, join_scores


def test_a_chunk_with_every_word_is_before_one_with_a_rare_word_and_one_with_a_common_word() -> None:
    scorer = QueryScorer(Corpus(chunks=10, terms=100), {"rare": 1, "common": 9})
    both, rare, common, none = (
        scorer.score(words + ["other"] * (10 - len(words))) for words in (["rare", "common"], ["rare"], ["common"], [])
    )
    assert 1 > both > rare > common > none == 0


def test_the_score_of_the_only_chunk_is_not_zero() -> None:
    assert QueryScorer(Corpus(1, 3), {"cat": 1}).score(["cat", "on", "mat"]) == pytest.approx(1 / 2.2)


def test_more_occurrences_count_and_length_takes_away() -> None:
    scorer = QueryScorer(Corpus(100, 1000), {"cat": 5})
    by_count = [scorer.score(["cat"] * n + ["other"] * (50 - n)) for n in (1, 2, 5, 50)]
    assert all(less < more < 1 for less, more in pairwise(by_count))
    by_length = [scorer.score(["cat"] + ["other"] * n) for n in (0, 10, 100, 5000)]
    assert all(more > less > 0 for more, less in pairwise(by_length))


@pytest.mark.parametrize("corpus", [Corpus(0, 0), Corpus(3, 0)])
def test_an_empty_store_has_no_scores(corpus: Corpus) -> None:
    assert QueryScorer(corpus, {}).score(["cat"]) == 0
    assert QueryScorer(corpus, {"cat": 0}).score([]) == 0


def test_several_queries_join_to_what_one_of_them_covers() -> None:
    assert join_scores([]) == 0
    assert join_scores([0.5]) == 0.5
    assert join_scores([0.5, 0.5]) == 0.75


def test_ranks_are_fused_by_their_weights() -> None:
    assert fuse_ranks([(1, 1), (1, 3)]) == pytest.approx(1)
    assert fuse_ranks([(1, 1), (None, 1)]) == pytest.approx(0.5)
    assert fuse_ranks([(None, 1), (1, 3)]) == pytest.approx(0.75)
    assert fuse_ranks([(2, 1), (40, 1)]) < fuse_ranks([(2, 1), (2, 1)]) < 1
    assert fuse_ranks([]) == 0
