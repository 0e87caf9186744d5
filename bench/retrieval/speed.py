"""Times of vector stores with many chunks: indexing, and searches by words and by vectors."""

import random
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from statistics import median
from typing import Any, Final, NamedTuple, TypeAlias

from bench.retrieval.filled_stores import FilledStore
from gateway.retrieval.embedding import Vector, pack_vector

CHUNKS_PER_FILE: Final = 500
_WORDS: Final = 20_000
_WORDS_PER_CHUNK: Final = 120
_DIMENSIONS: Final = 256
_WARM: Final = 3
"""So many searches of each kind are not timed: statements are compiled, and pages read for the first time."""

SearchTimer: TypeAlias = Callable[[int], Coroutine[Any, Any, float]]
"""Returns the seconds of the search with a number."""


class Load(NamedTuple):
    """Generated chunks and queries, and vectors of both."""

    chunks: Sequence[str]
    queries: Sequence[str]
    chunk_vectors: Sequence[Vector]
    query_vectors: Sequence[Vector]


def generate_load(chunks: int, queries: int, *, with_vectors: bool, seed: int = 34) -> Load:
    """Returns chunks whose words are about as frequent as those of a language, and queries of five words."""
    chance = random.Random(seed)
    words = [f"word{n}" for n in range(_WORDS)]
    weights = [1 / (n + 10) for n in range(_WORDS)]
    texts = [" ".join(chance.choices(words, weights, k=_WORDS_PER_CHUNK)) for _ in range(chunks)]
    queries_of_words = [" ".join(chance.sample(words[50:], 5)) for _ in range(queries)]

    def draw() -> Vector:
        return pack_vector([chance.gauss(0, 1) for _ in range(_DIMENSIONS)])

    count = chunks if with_vectors else 0
    return Load(
        texts, queries_of_words, [draw() for _ in range(count)], [draw() for _ in range(queries if with_vectors else 0)]
    )


async def fill(store: FilledStore, load: Load) -> float:
    """Indexes all chunks, and returns the seconds that took."""
    began = time.perf_counter()
    for start in range(0, len(load.chunks), CHUNKS_PER_FILE):
        texts = load.chunks[start : start + CHUNKS_PER_FILE]
        vectors: Sequence[Vector | None] = load.chunk_vectors[start : start + CHUNKS_PER_FILE] or [None] * len(texts)
        await store.add_file(f"file-{start}", list(zip(texts, vectors, strict=True)))
    return time.perf_counter() - began


async def measure_medians(searches: Mapping[str, SearchTimer], count: int) -> dict[str, float]:
    """Returns the median of the seconds of each kind of search. They take turns, so that what else the machine does
    costs all of them the same."""
    seconds: dict[str, list[float]] = {name: [] for name in searches}
    for number in range(-_WARM, count):
        for name, measure in searches.items():
            duration = await measure(max(number, 0))
            if number >= 0:
                seconds[name].append(duration)
    return {name: median(each) for name, each in seconds.items()}


def time_search(search: Callable[[int], Coroutine[Any, Any, object]]) -> SearchTimer:
    """Returns what measures a search."""

    async def measure(number: int) -> float:
        began = time.perf_counter()
        await search(number)
        return time.perf_counter() - began

    return measure
