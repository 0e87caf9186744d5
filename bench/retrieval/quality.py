"""Scores of rankings: nDCG@10, and how often the right document is first and among the first five."""

from collections.abc import Sequence
from math import log2
from typing import Final, NamedTuple

from bench.retrieval.corpus import RIGHT, Question

DEPTH: Final = 10


class Quality(NamedTuple):
    """How good rankings are, each between 0 and 1."""

    ndcg: float
    first: float
    top_five: float


def judge_rankings(questions: Sequence[Question], rankings: Sequence[Sequence[str]]) -> Quality:
    """Returns the quality of rankings: the ids of documents for each question, best first."""
    gains = [_compute_ndcg(question, ranking) for question, ranking in zip(questions, rankings, strict=True)]
    places = [_find_right(question, ranking) for question, ranking in zip(questions, rankings, strict=True)]
    count = len(questions)
    return Quality(
        sum(gains) / count, sum(place < 1 for place in places) / count, sum(place < 5 for place in places) / count
    )


def _compute_ndcg(question: Question, ranking: Sequence[str]) -> float:
    gains = [question.relevance.get(each, 0) for each in ranking[:DEPTH]]
    best = sorted(question.relevance.values(), reverse=True)[:DEPTH]
    return _discount(gains) / _discount(best)


def _discount(gains: Sequence[int]) -> float:
    return sum((2.0**gain - 1) / log2(place + 2) for place, gain in enumerate(gains))


def _find_right(question: Question, ranking: Sequence[str]) -> int:
    [right] = [key for key, gain in question.relevance.items() if gain == RIGHT]
    return ranking.index(right) if right in ranking else len(ranking) + DEPTH
