"""Checks names and packages of the product and of the benchmark: `python -m scripts.check_names`.

It enforces docs/glossary.md, one meaning per public name, the sizes of packages and files, and a docstring in every
package. In scripts/ it checks the words and the sizes. In tests/ it checks that no file or folder is too large,
that no definition is a bare verb of speech, and that no test is numbered.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final = ("gateway", "providers", "dataplane", "translation", "responses_gateway_clients", "bench")
"""The folders in which everything is checked."""
SCRIPT_FOLDERS: Final = ("scripts",)
"""The folders in which the words and the sizes are checked."""
TEST_FOLDERS: Final = ("tests",)
"""The folders in which the sizes are checked, and definitions for bare verbs: tests may have other words of the
glossary."""
MAX_MODULES: Final = 16
MAX_LINES: Final = 600
MIN_LINES: Final = 30
"""A shorter module, except an `__init__`, needs a reason in SMALL_MODULES."""


class SharedNames(NamedTuple):
    """Public names that several modules define on purpose.

    Below `folder`, each subpackage or module may define them once. With `depth` 2, each of their parts may.
    """

    folder: str
    names: str
    reason: str
    depth: int = 1


SHARED_NAMES: Final = (
    SharedNames(
        "translation",
        """
        lift lower lower_items lower_parts lower_thinking lower_tools failure_in read_logprobs read_usage relay_body
        FINISH_REASONS BROKEN_FINISH_REASONS add_defaults read_facts PARAM_NAMES TURN_PARAMS
        """,
        "a step of translation, which every dialect has under the same name",
    ),
    SharedNames(
        "translation",
        "validate keep_known find_unknown_in_request REQUEST_FIELDS REQUEST_SCHEMA Request",
        "what every endpoint's request schema offers",
    ),
    SharedNames(
        "translation",
        """
        AllowedTools AssistantMessage Custom Function FunctionCall Grammar InputAudio InputContent JsonObjectFormat
        JsonSchemaFormat Message Reasoning StreamOptions TextFormat Tool ToolChoice
        """,
        "shapes of request fields, which /openapi.json names as each API does",
    ),
    SharedNames(
        "gateway/doctor/checks",
        """
        probe_call_and_result probe_forced_call probe_json_schema probe_length probe_stop probe_streaming probe_text
        probe_usage
        """,
        "the same probe, sent to Chat Completions and to Responses",
    ),
    SharedNames("", "GatewayError Json ParsingFormat", "clients must not import the server's code"),
    SharedNames("", "main", "the entry point of a process", depth=2),
    SharedNames("bench", "main", "the entry point of each of its processes", depth=2),
    SharedNames(
        "gateway/state/migrations/versions",
        "revision down_revision upgrade",
        "Alembic reads these names from every migration",
    ),
)

SMALL_MODULES: Final[dict[str, str]] = {
    "*/__main__.py": "Python runs this file for `python -m PACKAGE`",
    "gateway/state/migrations/env.py": "Alembic runs this file",
    "gateway/state/migrations/versions/*.py": "Alembic reads each change of the schema from a file of its own",
    "translation/*/client/defaults.py": "each API adds defaults in a file of this name",
    "translation/*/client/param_names.py": "each API has its names of parameters in a file of this name",
    "gateway/dialects/*/routes.py": "each API has its routes in a file of this name",
    "gateway/metrics/place.py": "the process that supervises workers imports it without the metrics",
    "gateway/version.py": "the command line imports it first, for `--version`",
    "providers/demo/files.py": "the configuration asks for the demo model without importing its adapter",
    "providers/engines/module_command.py": "child processes of two engines import it and little else",
    "providers/vllm_inprocess/parser_library.py": "this part of vLLM changes most often, and few need it",
    "translation/parsers/tools/registry.py": "it is the table of the formats, and imports them all",
    "gateway/tools/web_search/shapes.py": "it is the table of the shapes, and imports them all",
    "translation/representation/json_types.py": "nearly every module of the project imports it",
    "bench/reports/result_files.py": "all programs of the benchmark write their results with it",
    "scripts/docs/markdown.py": "every generated page is written with it",
}
"""Pattern of the paths of modules with fewer than MIN_LINES -> why they are no part of another module."""

GROWING_FOLDERS: Final[dict[str, str]] = {
    "gateway/state/migrations/versions": "each change of the schema is a file, and none is ever removed",
}
"""Folders that may have more than MAX_MODULES modules -> why they cannot be cut."""

VERBS_OF_SPEECH: Final = "said told asked kept shown opened tidied heard meant came found taken saying telling spoken"
"""Participles and verbs of speech that no name may consist of: docs/glossary.md, "Names"."""

UNCLEAR_WORDS: Final = frozenset({"asked", "came", "heard", "kept", "meant", "said", "shown", "told"})
"""Words of speech that no name may contain, except in tests."""

WORD_EXCEPTIONS: Final[dict[str, str]] = {
    "_DIRECT_CALLER": "the value of a field of the Messages API",
    "allowed_callers": "the name of a field of the Responses API",
    "resource": "the name of a parameter of OAuth 2.0 (RFC 8707)",
}
"""Identifier -> why it may contain a word of the glossary's column "Not", or be one of VERBS_OF_SPEECH."""

WORD_PLACES: Final[dict[str, tuple[str, ...]]] = {
    "catalogue": ("gateway/tools", "translation/hosted"),
    "exchange": ("bench/in_process", "gateway/planning", "gateway/tools", "gateway/websocket/turn.py", "providers"),
    "run": (
        "bench",
        "gateway/dialects",
        "gateway/errors.py",
        "gateway/jobs",
        "gateway/planning/admitted_request.py",
        "gateway/service",
        "gateway/state/sql/conversations.py",
        "translation/agui",
    ),
    "endpoint": ("gateway/dialects", "gateway/replies", "gateway/tools/mcp/oauth"),
    "thread": (
        "gateway/dialects",
        "gateway/errors.py",
        "gateway/planning",
        "gateway/replies",
        "gateway/service",
        "gateway/state/sql",
        "gateway/state/values.py",
        "translation/messages",
    ),
}
"""Word with one meaning -> the folders and modules that may define names with it: docs/glossary.md.

As the verb of a function each word is free, as in `run_worker`. A `delta run` is not a run.
"""

_FROZEN_FOLDER: Final = Path("scripts/tiny_model")
"""The model's record has the hashes of these files, so that a change of a name would require another training."""

_OWN_PATH: Final = Path("scripts/check_names.py")
_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Module(NamedTuple):
    """One file of code. `path` is relative to the repository."""

    path: Path
    text: str
    tree: ast.Module


class Problem(NamedTuple):
    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def main() -> None:
    """Prints every problem, and exits with status 1 if there are any."""
    modules = parse_modules(ROOT)
    scripts = parse_modules(ROOT, SCRIPT_FOLDERS)
    checked = [*modules, *(script for script in scripts if not script.path.is_relative_to(_FROZEN_FOLDER))]
    tests = parse_modules(ROOT, TEST_FOLDERS)
    forbidden = parse_forbidden_words((ROOT / "docs/glossary.md").read_text())
    problems = [
        *check_public_names(modules, SHARED_NAMES),
        *check_sizes([*modules, *scripts, *tests]),
        *check_small_modules([*modules, *scripts], SMALL_MODULES),
        *check_words(checked, forbidden, WORD_EXCEPTIONS),
        *check_word_places(modules, WORD_PLACES),
        *check_definitions(tests),
        *check_packages(modules),
    ]
    for problem in sorted(problems):
        print(problem)
    if problems:
        sys.exit(1)


def parse_modules(root: Path, folders: Iterable[str] = FOLDERS) -> list[Module]:
    """Reads every Python file in these folders of the repository."""
    files = sorted(file for folder in folders for file in (root / folder).rglob("*.py"))
    texts = [(file, file.read_text()) for file in files]
    return [Module(file.relative_to(root), text, ast.parse(text)) for file, text in texts]


def check_public_names(modules: Iterable[Module], shared: Sequence[SharedNames]) -> Iterator[Problem]:
    """Reports public names that several modules define, unless `shared` allows it, and names that need not be
    shared."""
    places: defaultdict[str, dict[Path, int]] = defaultdict(dict)
    for module in modules:
        for name, line in _public_names(module.tree.body):
            places[name].setdefault(module.path, line)
    excused: defaultdict[str, set[Path]] = defaultdict(set)
    for entry in shared:
        for name in entry.names.split():
            allowed = _allowed_places(places.get(name, ()), entry)
            excused[name].update(allowed[1:])
            if len(allowed) < 2:
                place = f"in {entry.folder}/" if entry.folder else "here"
                yield Problem(_OWN_PATH, 1, f"SHARED_NAMES lists {name}, which no two modules {place} define.")
    for name, lines in places.items():
        places_left = [path for path in lines if path not in excused[name]]
        for path in places_left[1:]:
            other = f"{places_left[0]}:{lines[places_left[0]]}"
            yield Problem(path, lines[path], f"{name} is also defined in {other}. A public name has one meaning.")


def _allowed_places(paths: Iterable[Path], entry: SharedNames) -> list[Path]:
    """Returns the first path in each part of the entry's folder."""
    first_of: dict[tuple[str, ...], Path] = {}
    for path in paths:
        if path.is_relative_to(entry.folder):
            first_of.setdefault(path.relative_to(entry.folder).parts[: entry.depth], path)
    return list(first_of.values())


def _public_names(body: Iterable[ast.stmt]) -> Iterator[tuple[str, int]]:
    """Yields the public names that statements define, with their lines. An import defines nothing."""
    for node in body:
        names: list[str] = []
        if isinstance(node, _DEFINITIONS):
            names = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.If | ast.Try):
            yield from _public_names([*node.body, *node.orelse])
        yield from ((name, node.lineno) for name in names if not name.startswith("_"))


def check_sizes(modules: Iterable[Module]) -> Iterator[Problem]:
    """Reports folders with too many modules and files with too many lines."""
    counts: defaultdict[Path, int] = defaultdict(int)
    for module in modules:
        counts[module.path.parent] += module.path.name != "__init__.py"
        length = len(module.text.splitlines())
        if length > MAX_LINES:
            yield Problem(module.path, length, f"The file has {length} lines. Split it: {MAX_LINES} are allowed.")
    for folder, count in counts.items():
        if count > MAX_MODULES and str(folder) not in GROWING_FOLDERS:
            yield Problem(folder, 1, f"The folder has {count} modules. Split it: {MAX_MODULES} are allowed.")


def check_small_modules(modules: Iterable[Module], reasons: dict[str, str]) -> Iterator[Problem]:
    """Reports modules with fewer than MIN_LINES that no pattern in `reasons` matches, and patterns without use."""
    unused = set(reasons)
    for module in modules:
        length = len(module.text.splitlines())
        if length >= MIN_LINES or module.path.name == "__init__.py":
            continue
        matching = {pattern for pattern in reasons if fnmatchcase(str(module.path), pattern)}
        unused -= matching
        if not matching:
            yield Problem(
                module.path, 1, f"The module has {length} lines. Join it to another, or say why not in SMALL_MODULES."
            )
    for pattern in sorted(unused):
        yield Problem(_OWN_PATH, 1, f"SMALL_MODULES lists {pattern}, which matches no module under {MIN_LINES} lines.")


def parse_forbidden_words(glossary: str) -> dict[str, list[str]]:
    """Returns each word of the glossary's column "Not", with the words that are used instead."""
    forbidden: defaultdict[str, list[str]] = defaultdict(list)
    for line in glossary.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3:
            for word in re.findall(r"`([^`]+)`", cells[2]):
                if not re.fullmatch(r"[a-z]+", word):
                    raise SystemExit(f"docs/glossary.md: {word!r} in the column Not is not one lower-case word.")
                forbidden[word].append(cells[0])
    if not forbidden:
        raise SystemExit("docs/glossary.md: no table has words in backticks in a third column.")
    return dict(forbidden)


def check_words(
    modules: Iterable[Module], forbidden: dict[str, list[str]], exceptions: dict[str, str]
) -> Iterator[Problem]:
    """Reports forbidden words in the names of modules, definitions, parameters, attributes and variables.

    Exceptions without use are reported too.
    """
    unused = set(exceptions)
    for module in modules:
        for name, line in sorted(set(_identifiers(module)), key=lambda each: (each[1], each[0])):
            problems = [*_bare_verb_problems(name), *_word_problems(name, forbidden)]
            if problems and name in exceptions:
                unused.discard(name)
            else:
                yield from (Problem(module.path, line, problem) for problem in problems)
    for name in sorted(unused):
        yield Problem(_OWN_PATH, 1, f"WORD_EXCEPTIONS lists {name}, which needs no exception.")


def check_word_places(modules: Iterable[Module], places: dict[str, tuple[str, ...]]) -> Iterator[Problem]:
    """Reports modules, functions, methods and classes outside of a word's places whose name has the word, and places
    without use."""
    unused = {(word, place) for word, allowed in places.items() for place in allowed}
    for module in modules:
        for name, line, is_function in _definitions_of(module):
            for word in sorted(_list_nouns(name, is_function=is_function) & places.keys()):
                matching = {(word, place) for place in places[word] if module.path.is_relative_to(place)}
                unused -= matching
                if not matching:
                    yield Problem(module.path, line, f"{name}: '{word}' means something else in docs/glossary.md.")
    for word, place in sorted(unused):
        yield Problem(_OWN_PATH, 1, f"WORD_PLACES lists {place} for '{word}', which no name there has.")


def _list_nouns(name: str, *, is_function: bool) -> set[str]:
    """Returns the words of a name in the singular, without the verb of a function and the run of a delta run."""
    words = [word.removesuffix("s") for word in split_words(name)]
    return {
        word
        for before, word in zip(["", *words], words, strict=False)
        if not (is_function and not before) and (before, word) != ("delta", "run")
    }


def _definitions_of(module: Module) -> Iterator[tuple[str, int, bool]]:
    """Yields the name of a module and of all that it defines, with their lines, and whether each is a function."""
    yield module.path.parent.name if module.path.name == "__init__.py" else module.path.stem, 1, False
    for node in ast.walk(module.tree):
        if isinstance(node, _DEFINITIONS):
            yield node.name, node.lineno, not isinstance(node, ast.ClassDef)


def check_definitions(modules: Iterable[Module]) -> Iterator[Problem]:
    """Reports functions, methods and classes whose name is a bare verb of speech, and numbered tests."""
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, _DEFINITIONS):
                yield from (Problem(module.path, node.lineno, text) for text in _bare_verb_problems(node.name))
                if re.match(r"test_\d+_", node.name):
                    yield Problem(module.path, node.lineno, f"{node.name} begins with a number. Claim what is true.")


def _identifiers(module: Module) -> Iterator[tuple[str, int]]:
    """Yields each name that a module introduces, its own included, with its line."""
    yield module.path.parent.name if module.path.name == "__init__.py" else module.path.stem, 1
    for node in ast.walk(module.tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
            case ast.arg():
                yield node.arg, node.lineno
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr, node.lineno
            case ast.Name(ctx=ast.Store()):
                yield node.id, node.lineno


def _bare_verb_problems(name: str) -> Iterator[str]:
    if name.strip("_") in VERBS_OF_SPEECH.split():
        yield f"{name} is a bare verb of speech or participle. Name what the function does, or what the value is."


def _word_problems(name: str, forbidden: dict[str, list[str]]) -> Iterator[str]:
    words = split_words(name)
    if len(words) > 1:
        for word in sorted(UNCLEAR_WORDS.intersection(words)):
            yield f"{name} contains '{word}'. Name what the function does, or what the value is."
    for word in sorted({*words, *(word.removesuffix("s") for word in words)} & forbidden.keys()):
        instead = " or ".join(f"'{term}'" for term in forbidden[word])
        yield f"{name} contains '{word}'. The word in docs/glossary.md is {instead}."


def split_words(name: str) -> list[str]:
    """Returns the words of an identifier in lower case. It is split at underscores, capitals and digits."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def check_packages(modules: Iterable[Module]) -> Iterator[Problem]:
    """Reports packages without a docstring that says what they are for and what they may import."""
    modules = list(modules)
    paths = {module.path for module in modules}
    for folder in sorted({path.parent for path in paths}):
        if folder / "__init__.py" not in paths:
            yield Problem(folder, 1, "The folder is no package. Add an __init__.py with a docstring.")
    for module in modules:
        if module.path.name != "__init__.py":
            continue
        docstring = ast.get_docstring(module.tree) or ""
        if not docstring:
            yield Problem(module.path, 1, "The package has no docstring.")
        elif len(re.findall(r"[.!?](?=\s|$)", docstring)) < 2:
            yield Problem(module.path, 1, "The docstring needs two sentences: the purpose, and what it may import.")
        elif not re.search(r"\b(May import|Knows)\b", docstring):
            yield Problem(module.path, 1, 'The docstring needs a sentence with "May import" or "Knows".')


if __name__ == "__main__":
    main()
