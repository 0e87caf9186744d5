"""Scores of chunks between 0 and 1: the share of a query that a chunk covers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import log, prod
from typing import Final, NamedTuple

_SATURATION: Final = 1.2
"""BM25's k1: how soon more occurrences of a term count for little."""

_LENGTH_SHARE: Final = 0.75
"""BM25's b: how much long chunks lose."""

_RANK_OFFSET: Final = 60
"""The constant of reciprocal rank fusion (Cormack, Clarke and Büttcher 2009)."""


class Corpus(NamedTuple):
    """The numbers of a whole store that scores depend on."""

    chunks: int
    terms: int
    """The terms of all chunks together."""


class QueryScorer:
    """Scores chunks of one store for one query, by BM25 with weights that are always positive.

    The score is divided by the most that any chunk could have: it lies between 0 and 1, falls with the length of the
    chunk, and can be compared between stores.
    """

    def __init__(self, corpus: Corpus, frequencies: Mapping[str, int]) -> None:
        """`frequencies` has each term of the query, and the number of chunks that contain it."""
        count = corpus.chunks
        self.weights: Final = {
            term: log(1 + (count - chunks + 0.5) / (chunks + 0.5)) for term, chunks in frequencies.items()
        }
        """How much each term of the query counts."""
        self._total = sum(self.weights.values())
        self._mean_length = max(corpus.terms / count, 1.0) if count else 1.0

    def score(self, terms: Sequence[str]) -> float:
        """Returns the score of a chunk with these terms; 0 if it has none of the query."""
        length = 1 - _LENGTH_SHARE + _LENGTH_SHARE * len(terms) / self._mean_length
        counts = Counter(term for term in terms if term in self.weights)
        covered = sum(self.weights[term] * n / (n + _SATURATION * length) for term, n in counts.items())
        return covered / self._total if covered else 0.0


def join_scores(scores: Iterable[float]) -> float:
    """Returns the score of a chunk that several queries found: the chance that at least one covers it, if each score is
    a chance."""
    return 1 - prod(1 - score for score in scores)


def fuse_ranks(ranks: Iterable[tuple[int | None, float]]) -> float:
    """Returns the score of a chunk by its ranks in several lists, each with the weight of that list.

    Ranks begin at 1. A rank is None if the chunk is not in that list. The first of all lists has the score 1.
    """
    fused = whole = 0.0
    for rank, weight in ranks:
        whole += weight / (_RANK_OFFSET + 1)
        if rank is not None:
            fused += weight / (_RANK_OFFSET + rank)
    return fused / whole if whole else 0.0
