"""What searches are compared with: bm25s and a model of embeddings, in a Python of their own."""

import asyncio
import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from gateway.retrieval.embedding import Vector, pack_vector

_SCRIPT: Final = Path(__file__).with_name("peer.py")


class WordPeer:
    """bm25s with an index of some documents, in a process."""

    def __init__(self, process: subprocess.Popen[str], documents: Sequence[str], depth: int) -> None:
        self._process = process
        self.indexed_s: float = self._ask({"documents": [*documents], "depth": depth})["indexed_s"]

    def rank(self, query: str) -> list[int]:
        """Returns the places of the best documents."""
        ranking: list[int] = self._ask(query)["ranking"]
        return ranking

    async def measure(self, query: str) -> float:
        """Returns the seconds that a search takes there."""
        seconds: float = (await asyncio.to_thread(self._ask, query))["seconds"]
        return seconds

    def _ask(self, request: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


class PeerPython:
    """The Python of requirements/retrieval.txt, which `scripts/setup_apart retrieval` makes."""

    def __init__(self, executable: str) -> None:
        self._executable = executable

    @contextmanager
    def index_words(self, documents: Sequence[str], depth: int) -> Iterator[WordPeer]:
        """Indexes documents by bm25s, for searches of so many results."""
        command = [self._executable, str(_SCRIPT)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            yield WordPeer(process, documents, depth)

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Returns the vectors of texts by the small model of wordllama."""
        line = json.dumps({"documents": [*texts]}) + "\n"
        done = subprocess.run([self._executable, _SCRIPT], input=line, text=True, check=True, capture_output=True)
        return [pack_vector(each) for each in json.loads(done.stdout.splitlines()[-1])["vectors"]]
