"""What searches are compared with: bm25s and a model of embeddings, in a Python of their own."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from gateway.retrieval.embedding import Vector, pack_vector

_SCRIPT: Final = Path(__file__).with_name("peer.py")


class PeerPython:
    """The Python of requirements/retrieval.txt, which `scripts/setup_apart retrieval` makes."""

    def __init__(self, executable: str) -> None:
        self._executable = executable

    def rank_by_words(self, documents: Sequence[str], queries: Sequence[str], depth: int) -> Any:
        """Returns what bm25s finds: `rankings` of places, `seconds` of each search, and `indexed_s`."""
        return self._ask({"documents": [*documents], "queries": [*queries], "depth": depth})

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Returns the vectors of texts by the small model of wordllama."""
        return [pack_vector(each) for each in self._ask({"documents": [*texts]})["vectors"]]

    def _ask(self, request: dict[str, Any]) -> Any:
        line = json.dumps(request) + "\n"
        done = subprocess.run([self._executable, _SCRIPT], input=line, text=True, check=True, capture_output=True)
        return json.loads(done.stdout.splitlines()[-1])
