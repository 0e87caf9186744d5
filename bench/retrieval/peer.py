"""Runs in the Python of requirements/retrieval.txt: ranks by bm25s, and makes vectors by a small model of the package
wordllama. It reads one line of JSON, and writes one."""

import json
import sys
import time
from pathlib import Path
from typing import Any


def rank_by_words(documents: list[str], queries: list[str], depth: int) -> dict[str, Any]:
    """Returns the places of the best documents for each query, and the seconds of each search."""
    import bm25s  # type: ignore[import-not-found]

    began = time.perf_counter()
    index = bm25s.BM25()
    index.index(bm25s.tokenize(documents, show_progress=False), show_progress=False)
    indexed_s = time.perf_counter() - began
    rankings, seconds = [], []
    for query in queries:
        began = time.perf_counter()
        words = bm25s.tokenize([query], show_progress=False)
        places, _ = index.retrieve(words, k=min(depth, len(documents)), show_progress=False)
        seconds.append(time.perf_counter() - began)
        rankings.append([int(place) for place in places[0]])
    return {"rankings": rankings, "seconds": seconds, "indexed_s": indexed_s}


def embed(texts: list[str]) -> dict[str, Any]:
    """Returns the vectors of texts."""
    import wordllama  # type: ignore[import-not-found]

    own_files = Path(wordllama.__file__).parent  # its tokenizer is in the package, where it looks for downloads
    model = wordllama.WordLlama.load(dim=256, cache_dir=own_files, disable_download=True)
    return {"vectors": [[float(number) for number in vector] for vector in model.embed(texts, norm=True)]}


def main() -> None:
    """Serves one request."""
    request = json.loads(sys.stdin.readline())
    texts, queries = request["documents"], request.get("queries")
    reply = embed(texts) if queries is None else rank_by_words(texts, queries, request["depth"])
    print(json.dumps(reply))


if __name__ == "__main__":
    main()
