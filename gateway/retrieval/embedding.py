"""Embeddings of texts: how they are kept, and how close two of them are. Who makes them is not known here.

A vector is kept as the bytes of its numbers (32-bit floats), scaled to length 1. Its signs are a bit for each number:
texts that are close have most signs in common, so that the candidates among many vectors are found fast.
"""

import asyncio
import heapq
from array import array
from collections.abc import Callable, Sequence
from functools import reduce
from math import isfinite, sqrt
from operator import add, mul
from typing import Final, NamedTuple, Protocol, TypeAlias

Vector: TypeAlias = bytes
"""The numbers of a vector of length 1, as 32-bit floats."""

_NUMBER_BYTES: Final = 4

_ONES: Final = bytes(byte.bit_count() for byte in range(256))
"""The number of bits that are 1 in each byte."""

_ADDED_BYTES: Final = 31
"""So many numbers of bits in a byte have a sum that fits into a byte."""

_SIGNS_AT_ONCE: Final = 2000


class Embedder(Protocol):
    """Makes vectors of texts."""

    @property
    def name(self) -> str:
        """The provider, the model, and the size of its vectors if it is asked for one. Vectors of different names say
        nothing of each other."""
        ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        """Returns the vectors of texts, in their order. Raises ProviderError, Unrepresentable and ProtocolViolation."""
        ...

    def is_away(self, error: Exception) -> bool:
        """Whether an error of `embed` says that the model is busy or away, which passes by itself."""
        ...


FindEmbedder: TypeAlias = Callable[[], Embedder | None]
"""Returns who makes vectors at present; None if searches go by words alone."""


class QueryVectors(NamedTuple):
    """The vectors of the queries of a search, and who made them."""

    embedder: str
    vectors: Sequence[Vector]
    meaning_weight: float = 1.0
    """How much the order by vectors counts, beside `text_weight` for the order by words."""
    text_weight: float = 1.0


def pack_vector(numbers: Sequence[float]) -> Vector:
    """Returns the vector of some numbers. Raises ValueError if they are none, or not finite."""
    length = sqrt(sum(map(mul, numbers, numbers))) if numbers else 0.0
    if not isfinite(length) or not length:
        raise ValueError("an embedding has to have numbers, not all 0")
    return array("f", [number / length for number in numbers]).tobytes()


def unpack_vector(vector: Vector) -> list[float]:
    """Returns the numbers of a vector."""
    return array("f", vector).tolist()


def print_numbers(vector: Vector) -> str:
    """Returns the numbers of a vector as a text, with commas between them. Nine digits tell all 32-bit floats apart."""
    numbers = array("f", vector)
    return ",".join(["%.9g"] * len(numbers)) % tuple(numbers)


def count_numbers(vector: Vector) -> int:
    """Returns the size of a vector."""
    return len(vector) // _NUMBER_BYTES


def build_signs(vector: Vector) -> bytes:
    """Returns the signs of a vector, a bit for each number."""
    bits = "".join("1" if number > 0 else "0" for number in array("f", vector))
    return int(bits, 2).to_bytes((len(bits) + 7) // 8, "big")


def compute_closeness(vector: Vector, others: Sequence[Sequence[float]]) -> float:
    """Returns the cosine of the angle to the closest of some vectors of the same size, which are unpacked."""
    numbers = array("f", vector)
    return max((sum(map(mul, numbers, other)) for other in others), default=0.0)


def count_differences(signs: bytes, query: bytes) -> Sequence[int]:
    """Returns in how many bits the signs of vectors differ from those of one vector. They lie one behind the other.

    A loop over vectors would take twenty times as long as these few operations, each with all of them.
    """
    size, count = len(query), len(signs) // len(query)
    differences = int.from_bytes(signs, "little") ^ int.from_bytes(query * count, "little")
    ones = differences.to_bytes(len(signs), "little").translate(_ONES)
    columns = [int.from_bytes(ones[place::size], "little") for place in range(size)]
    sums = [
        sum(columns[first : first + _ADDED_BYTES]).to_bytes(count, "little") for first in range(0, size, _ADDED_BYTES)
    ]
    return reduce(lambda left, right: list(map(add, left, right)), sums[1:], list(sums[0]))


class SignScan:
    """Finds the vectors with the most signs in common with those of a query, among many that are shown in turns."""

    def __init__(self, queries: Sequence[Vector], limit: int) -> None:
        self._queries: Final = [build_signs(each) for each in queries]
        self._limit: Final = limit
        self._best: list[tuple[int, int]] = []
        """The number of different signs, and the number of the vector."""

    @property
    def size(self) -> int:
        """The bytes of the signs of one vector."""
        return len(self._queries[0])

    def add(self, numbers: Sequence[int], signs: bytes) -> None:
        """Takes vectors by their numbers and their signs, one behind the other."""
        for start in range(0, len(numbers), _SIGNS_AT_ONCE):
            end = start + _SIGNS_AT_ONCE
            part = signs[start * self.size : end * self.size]
            differences = [count_differences(part, query) for query in self._queries]
            fewest = differences[0] if len(differences) == 1 else map(min, *differences)
            self._best += zip(fewest, numbers[start:end], strict=True)
        self._best = heapq.nsmallest(self._limit, self._best)

    @property
    def numbers(self) -> list[int]:
        """The numbers of the best vectors."""
        return [number for _, number in self._best]


class EmbeddedQueries(NamedTuple):
    """The vectors of the queries of a search; None if it goes by words alone. `is_model_away` says whether that is
    because the model is busy or away."""

    vectors: QueryVectors | None = None
    is_model_away: bool = False


async def embed_queries(
    embedder: Embedder | None,
    queries: Sequence[str],
    weights: tuple[float, float] = (1.0, 1.0),
    *,
    limit_s: float | None = None,
) -> EmbeddedQueries:
    """Returns the vectors of queries with the weights of meaning and words.

    Raises what `Embedder.embed` raises, unless that passes by itself: then the search goes by words. So it does if the
    vectors take longer than `limit_s`.
    """
    if embedder is None:
        return EmbeddedQueries()
    try:
        async with asyncio.timeout(limit_s):
            vectors = await embedder.embed(queries)
    except TimeoutError:
        return EmbeddedQueries(is_model_away=True)
    except Exception as error:  # the embedder knows which of its errors pass
        if not embedder.is_away(error):
            raise
        return EmbeddedQueries(is_model_away=True)
    return EmbeddedQueries(QueryVectors(embedder.name, vectors, *weights))
