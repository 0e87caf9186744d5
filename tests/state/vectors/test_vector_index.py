"""SQLite finds the closest vectors among more than it compares exactly, whatever else the store has."""

import random
from pathlib import Path

import pytest

from bench.retrieval.filled_stores import open_filled_store
from gateway.retrieval.embedding import Vector, pack_vector, unpack_vector
from tests.databases import ready_sqlite

DIMENSIONS = 40
OTHER_SIZES = {"of as many bytes of signs": 39, "of fewer bytes of signs": 30, "of more": 41}


def draw(chance: random.Random, size: int = DIMENSIONS) -> Vector:
    return pack_vector([chance.gauss(0, 1) for _ in range(size)])


@pytest.mark.timeout(120)
async def test_the_closest_vectors_are_found_among_those_of_other_sizes_and_none(tmp_path: Path) -> None:
    chance = random.Random(3)
    files = {f"file-{n}": [draw(chance) for _ in range(12)] for n in range(100)}
    async with open_filled_store(ready_sqlite(tmp_path / "state.db")) as store:
        for number, (file_id, vectors) in enumerate(files.items()):
            await store.add_file(file_id, [("a text", vector) for vector in vectors])
            if number < len(OTHER_SIZES):
                size = [*OTHER_SIZES.values()][number]
                await store.add_file(f"other-{size}", [("a text", draw(chance, size)) for _ in range(30)])
        await store.add_file("none", [("a text", None)] * 30)
        for _ in range(10):
            wanted = draw(chance)
            found = await store.search("nothing", 5, wanted, text_weight=0.0)
            numbers = unpack_vector(wanted)
            closeness = sorted(
                (
                    (sum(map(float.__mul__, unpack_vector(each), numbers)), file_id)
                    for file_id in files
                    for each in files[file_id]
                ),
                reverse=True,
            )
            assert found == [file_id for _, file_id in closeness[:5]]


async def test_vectors_of_another_size_under_the_name_of_a_model_are_not_close(vector_url: str) -> None:
    async with open_filled_store(vector_url) as store:
        await store.add_file("same", [("a text", pack_vector([0.0, 1.0, 0.0]))] * 2)
        await store.add_file("other", [("a text", pack_vector([1.0, 0.0]))] * 3)
        found = await store.search("nothing", 10, pack_vector([0.0, 1.0, 1.0]), text_weight=0.0)
    assert found == ["same", "same"]
