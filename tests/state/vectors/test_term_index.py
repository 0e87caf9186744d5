"""The statement by which PostgreSQL is searched is compiled once, for all stores and numbers of terms and files."""

from typing import Any

from sqlalchemy.ext.asyncio import create_async_engine

from gateway.retrieval.scoring import Corpus
from gateway.state.vectors.term_index import TermQuery, choose_term_index
from tests.databases import Postgres

SEARCHES = [
    ("one term", "vs_a", TermQuery(["aone"], Corpus(1, 1), 5)),
    ("three terms of another store", "vs_b", TermQuery(["aone", "atwo", "athree"], Corpus(7, 70), 200)),
    ("a thousand terms", "vs_b", TermQuery([f"a{n}" for n in range(1000)], Corpus(7, 70), 200)),
    ("one file", "vs_a", TermQuery(["aone"], Corpus(1, 1), 5, ["file-1"])),
    ("three files", "vs_a", TermQuery(["aone"], Corpus(1, 1), 5, ["file-1", "file-2", "file-3"])),
]


async def test_postgresql_is_searched_by_a_statement_that_is_compiled_once(postgres: Postgres) -> None:
    compiled: dict[Any, Any] = {}
    url = postgres.lease()
    engine = create_async_engine(url, execution_options={"compiled_cache": compiled})
    counts = {}
    async with engine.connect() as connection:
        for name, store_id, query in SEARCHES:
            found = await choose_term_index("owner", store_id, is_sqlite=False).find_matches(connection, query)
            assert not found.matches, name
            counts[name] = len(compiled)
    await engine.dispose()
    postgres.give_back(url)
    assert counts == dict.fromkeys((name for name, *_ in SEARCHES), 1)
