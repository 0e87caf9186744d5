"""Vectors are kept as bytes, and the closest of many are found by their signs first."""

import math
import random

import pytest

from gateway.retrieval.embedding import (
    EmbeddedQueries,
    SignScan,
    build_signs,
    compute_closeness,
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
    east, north = pack_vector([1, 0]), pack_vector([0, 1])
    assert compute_closeness(pack_vector([1, 1]), [east]) == pytest.approx(math.sqrt(0.5))
    assert compute_closeness(north, [east, north]) == pytest.approx(1)
    assert compute_closeness(north, []) == 0


def test_the_closest_of_many_are_among_those_with_most_signs_in_common() -> None:
    chance = random.Random(7)
    vectors = {n: pack_vector([chance.gauss(0, 1) for _ in range(256)]) for n in range(3000)}
    wanted = vectors[1234]
    near = {9000 + n: pack_vector([x + chance.gauss(0, 0.02) for x in unpack_vector(wanted)]) for n in range(10)}
    every = {**vectors, **near}
    scan = SignScan([wanted], 20)
    pairs = [(number, build_signs(vector)) for number, vector in every.items()]
    for start in range(0, len(pairs), 700):
        scan.add(pairs[start : start + 700])
    assert scan.numbers[0] == 1234
    assert {*near} <= {*scan.numbers}
    assert len(scan.numbers) == 20


async def test_without_an_embedder_queries_have_no_vectors() -> None:
    assert await embed_queries(None, ["cat"]) == EmbeddedQueries()
