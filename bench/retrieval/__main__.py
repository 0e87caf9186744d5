"""`python -m bench.retrieval`: how well vector stores are searched, and with `--chunks N` how fast."""

import argparse
import asyncio
import os
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from bench.retrieval.corpus import Question, generate_corpus
from bench.retrieval.filled_stores import open_filled_store
from bench.retrieval.peers import PeerPython
from bench.retrieval.pgvector import open_pgvector, settle
from bench.retrieval.quality import DEPTH, Quality, judge_rankings
from bench.retrieval.speed import fill, generate_load, measure_medians, time_search
from gateway.state.database.migrate import migrate_database

_QUERIES = 40


async def compare_quality(peer: PeerPython) -> None:
    """Prints the quality of the searches of the generated set, by words, by bm25s, and by words and vectors."""
    corpus = generate_corpus()
    texts = [document.text for document in corpus.documents]
    vectors = await asyncio.to_thread(peer.embed, texts)
    print(f"{'questions':<14}{'searched by':<22}{'nDCG@10':>8}{'first':>8}{'top five':>10}")
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite+aiosqlite:///{Path(folder) / 'state.db'}"
        async with open_filled_store(url) as store:
            for document, vector in zip(corpus.documents, vectors, strict=True):
                await store.add_file(document.id, [(document.text, vector)])
            for kind, questions in (("same words", corpus.same_words), ("other words", corpus.other_words)):
                texts_of_questions = [question.text for question in questions]
                by_words = [await store.search(text, DEPTH) for text in texts_of_questions]
                _print_quality(kind, "the gateway, words", questions, by_words)
                with peer.index_words(texts, DEPTH) as bm25s:
                    by_bm25s = [[corpus.documents[n].id for n in bm25s.rank(text)] for text in texts_of_questions]
                _print_quality(kind, "bm25s", questions, by_bm25s)
                query_vectors = await asyncio.to_thread(peer.embed, texts_of_questions)
                for means, text_weight in (("the gateway, vectors", 0.0), ("the gateway, both", 1.0)):
                    by_vectors = [
                        await store.search(text, DEPTH, vector, text_weight)
                        for text, vector in zip(texts_of_questions, query_vectors, strict=True)
                    ]
                    _print_quality(kind, means, questions, by_vectors)


def _print_quality(kind: str, means: str, questions: Sequence[Question], rankings: Sequence[Sequence[str]]) -> None:
    quality: Quality = judge_rankings(questions, rankings)
    print(f"{kind:<14}{means:<22}{quality.ndcg:>8.3f}{quality.first:>8.2f}{quality.top_five:>10.2f}")


async def measure_speed(peer: PeerPython, url: str | None, chunks: int, *, with_vectors: bool) -> None:
    """Prints how fast chunks are indexed and found, beside bm25s in memory and pgvector alone."""
    load = generate_load(chunks, _QUERIES, with_vectors=with_vectors)
    size = sum(map(len, load.chunks)) / 1e6
    with tempfile.TemporaryDirectory() as folder:
        place = url or f"sqlite+aiosqlite:///{Path(folder) / 'state.db'}"
        if url is not None:
            await migrate_database(url)
        async with AsyncExitStack() as stack:
            store = await stack.enter_async_context(open_filled_store(place))
            seconds = await fill(store, load)
            print(f"{chunks} chunks, {size:.1f} MB: indexed in {seconds:.1f} s, {size / seconds:.2f} MB/s")
            bm25s = stack.enter_context(peer.index_words(load.chunks, 10))
            print(f"bm25s: indexed in {bm25s.indexed_s:.1f} s")
            by_words = {
                "the gateway, words": time_search(lambda n: store.search(load.queries[n], 10)),
                "bm25s": lambda n: bm25s.measure(load.queries[n]),
            }
            by_vectors = {}
            if with_vectors:
                both = time_search(lambda n: store.search(load.queries[n], 10, load.query_vectors[n]))
                by_vectors["the gateway, words and vectors"] = both
            if with_vectors and url is not None:
                alone = await stack.enter_async_context(open_pgvector(url, load))
                by_vectors["pgvector alone, in a table of nothing else"] = time_search(alone)
            if url is not None:
                await settle(url)
            # Not all in turns: searches by vectors read so much that they push out of memory what others read.
            for searches in (by_words, by_vectors):
                for name, median in (await measure_medians(searches, _QUERIES)).items():
                    print(f"{name}: median {median * 1000:.1f} ms")


def main() -> None:
    """Reads the options, and measures."""
    parser = argparse.ArgumentParser(prog="python -m bench.retrieval", description=__doc__)
    parser.add_argument("--chunks", type=int, help="measure the speed with so many chunks, instead of the quality")
    parser.add_argument("--url", help="the database to measure: empty, and by default a SQLite file")
    parser.add_argument("--vectors", action="store_true", help="measure searches by vectors too")
    options = parser.parse_args()
    peer = PeerPython(os.environ["RETRIEVAL_PYTHON"])
    if options.chunks is None:
        asyncio.run(compare_quality(peer))
    else:
        asyncio.run(measure_speed(peer, options.url, options.chunks, with_vectors=options.vectors))


main()
