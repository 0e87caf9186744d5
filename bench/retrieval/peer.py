"""Runs in the Python of requirements/retrieval.txt: ranks by bm25s, and makes vectors by a small model of the package
wordllama. It reads a line of JSON, and writes one; after one for an index, so for each query."""

import json
import sys
import time
from pathlib import Path
from typing import Any


class WordIndex:
    """An index of bm25s in memory."""

    def __init__(self, documents: list[str], depth: int) -> None:
        import bm25s  # type: ignore[import-not-found]

        self._bm25s = bm25s
        self._depth = min(depth, len(documents))
        self._index = bm25s.BM25()
        self._index.index(bm25s.tokenize(documents, show_progress=False), show_progress=False)

    def rank(self, query: str) -> dict[str, Any]:
        """Returns the places of the best documents for a query, and the seconds of the search."""
        began = time.perf_counter()
        words = self._bm25s.tokenize([query], show_progress=False)
        places, _ = self._index.retrieve(words, k=self._depth, show_progress=False)
        return {"ranking": [int(place) for place in places[0]], "seconds": time.perf_counter() - began}


def answer_queries(documents: list[str], depth: int) -> None:
    """Indexes documents, and answers each line, which is a query, until there are no more."""
    began = time.perf_counter()
    index = WordIndex(documents, depth)
    print(json.dumps({"indexed_s": time.perf_counter() - began}), flush=True)
    for line in sys.stdin:
        print(json.dumps(index.rank(json.loads(line))), flush=True)


def embed(texts: list[str]) -> dict[str, Any]:
    """Returns the vectors of texts."""
    import wordllama  # type: ignore[import-not-found]

    own_files = Path(wordllama.__file__).parent  # its tokenizer is in the package, where it looks for downloads
    model = wordllama.WordLlama.load(dim=256, cache_dir=own_files, disable_download=True)
    return {"vectors": [[float(number) for number in vector] for vector in model.embed(texts, norm=True)]}


def main() -> None:
    """Serves one request."""
    request = json.loads(sys.stdin.readline())
    if "depth" in request:
        answer_queries(request["documents"], request["depth"])
    else:
        print(json.dumps(embed(request["documents"])))


if __name__ == "__main__":
    main()
