"""What is wrong with a `vllm_inprocess` provider, before it starts. vLLM is read for it, not imported: that is slow."""

import ast
import difflib
import importlib.util
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

from providers.config import ProviderConfig
from providers.engines.checks import Complaint

INSTALL: Final = 'vLLM is not installed: pip install "responses-gateway[vllm]"'

OURS: Final[dict[str, str]] = {
    "model": "write it as the provider's model",
    "served_model_name": "the names clients use are the keys under models",
    "enable_log_requests": "the gateway logs requests itself",
    "skip_tokenizer_init": "the gateway needs the model's tokenizer",
}
"""Engine arguments that are not the operator's to set, and what to do instead."""


def complaints(config: ProviderConfig) -> Sequence[Complaint]:
    """Everything that is wrong with `engine`, as far as names tell."""
    installed = _folder()
    if installed is None:
        return [Complaint(("type",), INSTALL)]
    known = _names(installed / "engine" / "arg_utils.py")
    # A vLLM that keeps its arguments elsewhere is asked when the engine starts, like every other.
    return [] if not known else [*unknown(config.engine, known), *_taken(config.engine)]


def unknown(given: Collection[str], known: Collection[str]) -> Iterator[Complaint]:
    """The names that the engine does not know, each with the nearest one that it does."""
    for name in given:
        if name not in known:
            nearest = difflib.get_close_matches(str(name), sorted(known), n=1)
            hint = f"; did you mean {nearest[0]}?" if nearest else ""
            yield Complaint(("engine", str(name)), f"the installed vLLM has no engine argument {name!r}{hint}")


def _taken(given: Collection[str]) -> Iterator[Complaint]:
    for name in given:
        if name in OURS:
            yield Complaint(("engine", name), OURS[name])


def _folder() -> Path | None:
    """Where vLLM is. Finding a package that has no parent imports nothing."""
    found = importlib.util.find_spec("vllm")
    places = found.submodule_search_locations if found is not None else None
    return Path(places[0]) if places else None


def _names(source: Path) -> frozenset[str]:
    """The fields of the classes that hold vLLM's engine arguments; none where they are not to be found."""
    try:
        tree = ast.parse(source.read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        return frozenset()
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return frozenset(
        field.target.id
        for node in classes
        if node.name in ("EngineArgs", "AsyncEngineArgs")
        for field in node.body
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and not field.target.id.startswith("_")
    )
