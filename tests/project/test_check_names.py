"""scripts/check_names.py: what it reports."""

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest

from scripts import check_names
from scripts.check_names import Module, Problem, SharedNames

GLOSSARY = """
| Word | Means | Not |
| --- | --- | --- |
| reply | What goes back. | `telling` |
| source | A reply that is received. | `incoming`, `alike` |
| template | What repeats. | `alike` |

| `other` | table |
| --- | --- |
| with | `two` columns |
"""
WORDS = {"telling": ["reply"], "incoming": ["source"], "alike": ["source", "template"]}


def modules(sources: dict[str, str]) -> list[Module]:
    """Returns modules with this source, by path."""
    return [Module(Path(path), source, ast.parse(source)) for path, source in sources.items()]


def lines_of(problems: Iterable[Problem]) -> list[str]:
    """Returns the place of each problem, and the first sentence of its message."""
    return [str(problem).split(". ")[0] for problem in problems]


def test_the_script_prints_problems_and_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/glossary.md").write_text(GLOSSARY)
    (tmp_path / "gateway").mkdir()
    (tmp_path / "gateway/__init__.py").write_text('"""The server. Knows nothing."""')
    (tmp_path / "gateway/x.py").write_text("def told(): ...\n")
    monkeypatch.setattr(check_names, "ROOT", tmp_path)
    monkeypatch.setattr(check_names, "SHARED_NAMES", ())
    monkeypatch.setattr(check_names, "WORD_EXCEPTIONS", {})
    monkeypatch.setattr(check_names, "SMALL_MODULES", {"*.py": "they are examples"})
    monkeypatch.setattr(check_names, "WORD_PLACES", {})
    with pytest.raises(SystemExit) as ended:
        check_names.main()
    assert ended.value.code == 1
    assert capsys.readouterr().out.startswith("gateway/x.py:1: told is a bare verb of speech")
    (tmp_path / "gateway/x.py").write_text("def tell(): ...\n")
    (tmp_path / "scripts").mkdir()
    for number in range(16):
        (tmp_path / f"scripts/m{number}.py").write_text("def tell(): ...\n")
    check_names.main()
    assert capsys.readouterr().out == ""
    (tmp_path / "scripts/m0.py").write_text("def told(): ...\n")
    with pytest.raises(SystemExit):
        check_names.main()
    assert capsys.readouterr().out.startswith("scripts/m0.py:1: told is a bare verb of speech")
    (tmp_path / "scripts/m0.py").write_text("def tell(): ...\n")
    (tmp_path / "scripts/m16.py").touch()
    with pytest.raises(SystemExit):
        check_names.main()
    assert capsys.readouterr().out.startswith("scripts:1: The folder has 17 modules")


def test_a_public_name_has_one_definition() -> None:
    found = modules(
        {
            "a/x.py": "LIMIT = 1\n_hidden = 1\nif LIMIT:\n    def send(): ...\n",
            "a/y.py": "from a.x import LIMIT\n_hidden = 2\nasync def send(): ...\nclass Own:\n    LIMIT = 3\n",
            "b/z.py": "def f(): ...\nLIMIT: int = 2\nLIMIT.real = 3\n",
        }
    )
    assert lines_of(check_names.check_public_names(found, [])) == [
        "b/z.py:2: LIMIT is also defined in a/x.py:1",
        "a/y.py:3: send is also defined in a/x.py:4",
    ]


@pytest.mark.parametrize(
    ("entry", "reported"),
    [
        (SharedNames("a", "lift", ""), ["a/y/more.py:1: lift is also defined in a/x.py:1", "b.py:1"]),
        (SharedNames("a", "lift", "", depth=2), ["b.py:1"]),
        (SharedNames("", "lift", "", depth=3), []),
    ],
    ids=["one per part of a folder", "one per module", "everywhere"],
)
def test_a_name_is_shared_where_the_table_allows_it(entry: SharedNames, reported: list[str]) -> None:
    source = "def lift(): ..."
    found = modules(dict.fromkeys(("a/x.py", "a/y/lift.py", "a/y/more.py", "b.py"), source))
    problems = lines_of(check_names.check_public_names(found, [entry]))
    assert len(problems) == len(reported)
    assert all(problem.startswith(start) for problem, start in zip(problems, reported, strict=True))


def test_an_entry_of_the_table_is_needed() -> None:
    found = modules({"a/x.py": "lift = lower = 1", "b/x.py": "lift = 1"})
    table = [SharedNames("a", "lower encode", "")]
    assert lines_of(check_names.check_public_names(found, table)) == [
        "scripts/check_names.py:1: SHARED_NAMES lists lower, which no two modules in a/ define.",
        "scripts/check_names.py:1: SHARED_NAMES lists encode, which no two modules in a/ define.",
        "b/x.py:1: lift is also defined in a/x.py:1",
    ]


def test_files_and_folders_are_small() -> None:
    full = {f"full/m{number}.py": "" for number in range(16)} | {"full/__init__.py": ""}
    assert list(check_names.check_sizes(modules(full | {"long.py": "\n" * 600}))) == []
    assert lines_of(check_names.check_sizes(modules(full | {"full/m16.py": "", "long.py": "\n" * 601}))) == [
        "long.py:601: The file has 601 lines",
        "full:1: The folder has 17 modules",
    ]


def test_a_small_module_needs_a_reason() -> None:
    small = dict.fromkeys(("a/__init__.py", "a/__main__.py", "a/b/__main__.py", "a/small.py", "a/b.py"), "\n" * 29)
    reasons = {"*/__main__.py": "Python runs it", "a/b.py": "why not", "a/full.py": "", "a/gone.py": ""}
    found = modules(small | {"a/full.py": "\n" * 30})
    assert lines_of(check_names.check_small_modules(found, reasons)) == [
        "a/small.py:1: The module has 29 lines",
        "scripts/check_names.py:1: SMALL_MODULES lists a/full.py, which matches no module under 30 lines.",
        "scripts/check_names.py:1: SMALL_MODULES lists a/gone.py, which matches no module under 30 lines.",
    ]


def test_the_words_of_the_glossary_are_read_from_its_tables() -> None:
    assert check_names.parse_forbidden_words(GLOSSARY) == WORDS


@pytest.mark.parametrize("glossary", ["", "| a | b | `two words` |"], ids=["no table", "not one word"])
def test_a_glossary_that_cannot_be_checked_is_reported(glossary: str) -> None:
    with pytest.raises(SystemExit, match=r"docs/glossary\.md"):
        check_names.parse_forbidden_words(glossary)


def test_identifiers_have_no_forbidden_words() -> None:
    source = """
class IncomingHTTPReply:
    def are_alike(self): ...
    def _told(self): ...
    def tell_what_is_told(self): ...
    def likewise(self): incomings()
def incomings(): ...
"""
    assert [str(problem) for problem in check_names.check_words(modules({"a.py": source}), WORDS, {})] == [
        "a.py:2: IncomingHTTPReply contains 'incoming'. The word in docs/glossary.md is 'source'.",
        "a.py:3: are_alike contains 'alike'. The word in docs/glossary.md is 'source' or 'template'.",
        "a.py:4: _told is a bare verb of speech or participle. Name what the function does, or what the value is.",
        "a.py:5: tell_what_is_told contains 'told'. Name what the function does, or what the value is.",
        "a.py:7: incomings contains 'incoming'. The word in docs/glossary.md is 'source'.",
    ]


def test_modules_parameters_attributes_and_variables_have_no_forbidden_words() -> None:
    source = """
LIMIT, _kept_items = 1, 2
def send(self, alike, *, incoming=LIMIT):
    self.shown_text = alike.telling
    for said in self.alike(telling=1): ...
"""
    assert lines_of(check_names.check_words(modules({"alike.py": source, "incoming/__init__.py": ""}), WORDS, {})) == [
        "alike.py:1: alike contains 'alike'",
        "alike.py:2: _kept_items contains 'kept'",
        "alike.py:3: alike contains 'alike'",
        "alike.py:3: incoming contains 'incoming'",
        "alike.py:4: shown_text contains 'shown'",
        "alike.py:5: said is a bare verb of speech or participle",
        "incoming/__init__.py:1: incoming contains 'incoming'",
    ]


def test_definitions_in_tests_are_no_bare_verbs() -> None:
    source = "def told(): ...\ndef test_what_is_told(incoming): said = 1"
    assert lines_of(check_names.check_definitions(modules({"a.py": source}))) == [
        "a.py:1: told is a bare verb of speech or participle"
    ]


def test_a_word_with_one_meaning_is_used_in_its_places_only() -> None:
    found = modules(
        {
            "a/threads.py": "class StoredThread: ...",
            "a/pool.py": "def run_in_thread(): ...\nthread = 1",
            "a/verbs.py": "def thread(): ...\ndef thread_needle(): ...\ndef _thread(): ...",
            "b/x.py": "def unthreaded(): ...\nclass Threads: ...",
        }
    )
    assert lines_of(check_names.check_word_places(found, {"thread": ("a/threads.py", "b", "c")})) == [
        "a/pool.py:1: run_in_thread: 'thread' means something else in docs/glossary.md.",
        "scripts/check_names.py:1: WORD_PLACES lists c for 'thread', which no name there has.",
    ]


def test_a_delta_run_is_not_a_run() -> None:
    found = modules(
        {"a.py": "class DeltaRun: ...\ndef learn_delta_run(): ...\nclass StoredRun: ...\ndef learn_run(): ..."}
    )
    assert lines_of(check_names.check_word_places(found, {"run": ()})) == [
        "a.py:3: StoredRun: 'run' means something else in docs/glossary.md.",
        "a.py:4: learn_run: 'run' means something else in docs/glossary.md.",
    ]


def test_tests_are_not_numbered() -> None:
    source = "def test_4_a_name(): ...\nasync def test_12_names(): ...\ndef test_404_is_one(): ...\ndef test_a_4(): ..."
    assert lines_of(check_names.check_definitions(modules({"a.py": source}))) == [
        "a.py:1: test_4_a_name begins with a number",
        "a.py:2: test_12_names begins with a number",
        "a.py:3: test_404_is_one begins with a number",
    ]


def test_an_exception_for_a_word_is_needed() -> None:
    exceptions = {"incoming": "the library's name", "outgoing": "not a forbidden word"}
    problems = check_names.check_words(modules({"a.py": "def incoming(): ...\ndef outgoing(): ..."}), WORDS, exceptions)
    assert lines_of(problems) == ["scripts/check_names.py:1: WORD_EXCEPTIONS lists outgoing, which needs no exception."]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("_open_HTTPReply2Send", ["open", "http", "reply", "send"]),
        ("SSEFrame", ["sse", "frame"]),
        ("__init__", ["init"]),
    ],
)
def test_a_name_is_split_into_words(name: str, words: list[str]) -> None:
    assert check_names.split_words(name) == words


@pytest.mark.parametrize(
    ("docstring", "complaint"),
    [
        ("Sends replies. May import `b`.", None),
        ("Sends replies.\n\nKnows only HTTP!", None),
        ("", "The package has no docstring."),
        ("May import `b.c`.", "The docstring needs two sentences"),
        ("Sends replies. Nothing else.", "The docstring needs a sentence with"),
    ],
)
def test_a_package_says_what_it_is_for_and_what_it_may_import(docstring: str, complaint: str | None) -> None:
    source = f'"""{docstring}"""' if docstring else ""
    problems = [
        str(problem) for problem in check_names.check_packages(modules({"a/__init__.py": source, "a/x.py": ""}))
    ]
    if complaint is None:
        assert problems == []
    else:
        assert len(problems) == 1
        assert problems[0].startswith(f"a/__init__.py:1: {complaint}")


def test_every_folder_is_a_package() -> None:
    [problem] = check_names.check_packages(modules({"a/x.py": ""}))
    assert str(problem).startswith("a:1: The folder is no package")
