"""Vectors are kept as bytes, and the closest of many are found by their signs first."""

import math
import random

import pytest

from gateway.retrieval.embedding import (
    EmbeddedQueries,
    SignScan,
    build_signs,
    compute_closeness,
    count_differences,
    count_numbers,
    embed_queries,
    pack_vector,
    unpack_vector,
)


def test_a_vector_has_length_one_and_comes_back() -> None:
    vector = pack_vector([3.0, 0.0, -4.0])
    assert count_numbers(vector) == 3
    assert unpack_vector(vector) == pytest.approx([0.6, 0.0, -0.8])
    assert build_signs(vector) == bytes([0b100])


@pytest.mark.parametrize("numbers", [[], [0.0, 0.0], [float("nan")], [float("inf"), 1.0], [1e308, 1e308]])
def test_numbers_without_a_direction_are_refused(numbers: list[float]) -> None:
    with pytest.raises(ValueError, match="embedding"):
        pack_vector(numbers)


def test_closeness_is_that_of_the_closest_query() -> None:
    east, north = [1.0, 0.0], [0.0, 1.0]
    assert compute_closeness(pack_vector([1, 1]), [east]) == pytest.approx(math.sqrt(0.5))
    assert compute_closeness(pack_vector(north), [east, north]) == pytest.approx(1)
    assert compute_closeness(pack_vector(north), []) == 0


@pytest.mark.parametrize("size", [1, 2, 13, 31, 32, 33, 62, 63, 192, 384])
@pytest.mark.parametrize("count", [0, 1, 50])
def test_differences_are_counted_for_signs_of_every_size(size: int, count: int) -> None:
    chance = random.Random(size)
    query = chance.randbytes(size)
    opposite = bytes(255 - byte for byte in query)
    signs = [query, opposite, *(chance.randbytes(size) for _ in range(48))][:count]
    expected = [sum((a ^ b).bit_count() for a, b in zip(each, query, strict=True)) for each in signs]
    assert list(count_differences(b"".join(signs), query)) == expected


def test_the_closest_of_many_are_among_those_with_most_signs_in_common() -> None:
    chance = random.Random(7)
    vectors = {n: pack_vector([chance.gauss(0, 1) for _ in range(256)]) for n in range(3000)}
    wanted = vectors[1234]
    near = {9000 + n: pack_vector([x + chance.gauss(0, 0.02) for x in unpack_vector(wanted)]) for n in range(10)}
    every = {**vectors, **near}
    scan = SignScan([wanted], 20)
    numbers = [*every]
    for start in (0, 10, 2700):
        part = numbers[start : {0: 10, 10: 2700}.get(start)]
        scan.add(part, b"".join(build_signs(every[number]) for number in part))
    assert scan.numbers[0] == 1234
    assert {*near} <= {*scan.numbers}
    assert len(scan.numbers) == 20


def test_of_several_queries_the_closest_counts() -> None:
    vectors = [pack_vector(numbers) for numbers in ([1, 1, 1], [-1, -1, -1], [1, -1, 1], [-1, 1, -1])]
    scan = SignScan(vectors[:2], 3)
    scan.add(range(4), b"".join(map(build_signs, vectors)))
    scan.add([], b"")
    assert scan.numbers == [0, 1, 2]


async def test_without_an_embedder_queries_have_no_vectors() -> None:
    assert await embed_queries(None, ["cat"]) == EmbeddedQueries()
