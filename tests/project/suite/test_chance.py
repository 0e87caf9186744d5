"""No test can fail by chance for a reason that others had: what it looks at is its own, and is looked at once."""

import ast
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.serving import read_whole_lines

ROOT = Path(__file__).parents[3]
TESTS = ROOT / "tests"
HELPER = "tests/own_process.py"
OUTSIDE = {HELPER, "tests/project/suite/test_chance.py"}

SHARED = {
    "threading.active_count": "find_threads",
    "threading.enumerate": "find_threads",
    "asyncio.all_tasks": "list_tasks",
    "gc.get_objects": "NewObjects",
    "time.process_time": "time.thread_time, or StallWatch and measuring_cost",
    "resource.getrusage": "measuring_cost",
    "/proc/self/fd": "find_descriptors or find_open_files",
}
"""What tells of all of a process -> what tells of a test's own, in the helper."""

TASK = ".create_task"
CLIENTS = {"Client", "AsyncClient", "get", "post", "put", "patch", "delete", "head", "options", "request", "stream"}
USUAL_S = 5.0
"""The deadline of clients that are made without one."""
IMPATIENCE_S = range(2, 60)
"""Whole seconds that are the deadline of a block. What a test is about has a name or a fraction."""
PATIENCES = {"PATIENCE_S", "READY_S", "START_S", "TIMEOUT_S", "EXIT_S"}
PATIENCE_S = 60.0
CLIENT_PROGRAMS = TESTS / "clients" / "programs"
"""They run apart, as users would write them."""
WAITS = {"wait_until", "wait_briefly", "block_until"}


def list_tests() -> list[Path]:
    return [file for file in sorted(TESTS.rglob("*.py")) if file.relative_to(ROOT).as_posix() not in OUTSIDE]


def find_shared(tree: ast.AST) -> Iterator[int]:
    """Yields the lines that use what tells of all of a process."""
    modules = {name.partition(".")[0] for name in SHARED}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                names = [f"{module}.{name}"]
            case ast.ImportFrom(module=str(module), names=imported) if module in modules:
                names = [f"{module}.{each.name}" for each in imported]
            case ast.Constant(value=str(text)) if text.startswith("/"):
                names = [text.removesuffix("/")]
            case _:
                continue
        yield from (node.lineno for name in names if name in SHARED)


def find_repeated(tree: ast.AST) -> Iterator[int]:
    """Yields the lines of statements that evaluate again what the statement before has waited for."""
    for node in ast.walk(tree):
        for body in (getattr(node, field, None) for field in ("body", "orelse", "finalbody")):
            if isinstance(body, list):
                for statement, following in itertools.pairwise(body):
                    condition = find_condition(statement)
                    if condition and any(ast.dump(each) == condition for each in ast.walk(following)):
                        yield following.lineno


def find_unwatched(tree: ast.AST) -> Iterator[int]:
    """Yields the lines that wait without a deadline for an event, while a task runs that is to lead to it."""
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)):
        nodes = list(walk_function(function.body))
        begun = [node.lineno for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(TASK)]
        for node in nodes:
            match node:
                case ast.Await(value=ast.Call(func=ast.Attribute(attr="wait"), args=[], keywords=[])):
                    if begun and min(begun) < node.lineno:
                        yield node.lineno


def find_impatient(tree: ast.AST) -> Iterator[int]:
    """Yields the lines of deadlines under a minute that no test is about: of clients, and of what is waited for."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="httpx"), attr=name), keywords=options) if (
                name in CLIENTS
            ):
                named = {option.arg: option.value for option in options}
                if not {"transport", None} & named.keys() and is_short(named.get("timeout", ast.Constant(USUAL_S))):
                    yield node.lineno
            case ast.Call(func=ast.Attribute(value=ast.Name(id="asyncio"), attr="timeout"), args=[ast.Constant(value)]):
                if isinstance(value, int) and value in IMPATIENCE_S:
                    yield node.lineno
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name.lstrip("_") in PATIENCES and is_short(
                value
            ):
                yield node.lineno


def is_short(seconds: ast.expr) -> bool:
    match seconds:
        case ast.Constant(value=int() | float() as value):
            return value < PATIENCE_S
    return False


def walk_function(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yields the nodes of the body of a function, without those of other functions in it and of blocks with a
    deadline."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                continue
            case ast.AsyncWith(items=[ast.withitem(context_expr=manager), *_]) if "timeout" in ast.unparse(manager):
                continue
        yield node
        yield from walk_function(list(ast.iter_child_nodes(node)))


def find_condition(statement: ast.stmt) -> str | None:
    """Returns the call that a statement waits for, if it drops what the wait returns."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    match value.value if isinstance(value, ast.Await) else value:
        case ast.Call(func=ast.Name(id=name), args=[ast.Lambda(body=body)]) if name in WAITS:
            found = find_call(body)
            return None if found is None else ast.dump(found)
        case ast.Call(func=ast.Name(id=name), args=[function, *arguments]) if name in WAITS:
            return ast.dump(ast.Call(function, arguments, []))
    return None


def find_call(condition: ast.expr) -> ast.Call | None:
    """Returns the call whose value decides a condition."""
    match condition:
        case ast.UnaryOp(operand=inner) | ast.Compare(left=inner) | ast.Subscript(value=inner):
            return find_call(inner)
        case ast.Call(func=ast.Name(id="bool" | "len"), args=[inner]):
            return find_call(inner)
        case ast.Call():
            return condition
    return None


def find_half_lines(tree: ast.AST) -> Iterator[int]:
    """Yields the lines that read a log as it is, perhaps in the middle of a line."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(attr="log"), attr="read_text" | "read_bytes" | "open")
            ):
                yield node.lineno


RULES: dict[str, Callable[[ast.AST], Iterator[int]]] = {
    f"what tells of a whole process tells of other fixtures too: use {HELPER}: {SHARED}": find_shared,
    "what was waited for may be different by now: use the value that the wait returns": find_repeated,
    "a wait lasts for ever if the task ends before the event: use `reach` of tests/polling.py": find_unwatched,
    f"a busy machine may need longer: wait for {PATIENCE_S:g} s": find_impatient,
    "a line of a log may be half written: use `read_log` or `read_log_lines` of tests/serving.py": find_half_lines,
}
"""What a test has to do instead -> what yields the lines that do not."""


@cache
def find_breaches() -> dict[str, list[str]]:
    """Returns the breaches of each rule. Each file is parsed once: together their trees are too large to be held."""
    found: dict[str, list[str]] = {rule: [] for rule in RULES}
    for file in list_tests():
        tree = ast.parse(file.read_text())
        for rule, find in RULES.items():
            if not (find is find_impatient and file.is_relative_to(CLIENT_PROGRAMS)):
                found[rule] += [f"{file.relative_to(ROOT)}:{line}" for line in find(tree)]
    return found


@pytest.mark.parametrize("rule", RULES, ids=[find.__name__ for find in RULES.values()])
def test_no_test_breaks_the_rule(rule: str) -> None:
    breaches = find_breaches()[rule]
    assert not breaches, "\n".join([rule, *breaches])


@pytest.mark.parametrize(
    "code", ["import threading\nthreading.active_count()", "from asyncio import all_tasks", "'/proc/self/fd'"]
)
def test_each_form_of_a_shared_name_is_found(code: str) -> None:
    assert list(find_shared(ast.parse(code)))


@pytest.mark.parametrize(
    ("code", "repeats"),
    [
        ("wait_until(lambda: f(x))\nassert f(x)", True),
        ("wait_until(lambda: not f(x))\ny = f(x)", True),
        ("wait_until(lambda: f(x)[0] == 1)\nassert g(f(x))", True),
        ("wait_until(f, x)\nassert f(x)", True),
        ("y = wait_until(f, x)\nassert f(x)", False),
        ("wait_until(lambda: f(x))\nassert f(z)", False),
    ],
)
def test_each_form_of_a_repeated_condition_is_found(code: str, repeats: bool) -> None:
    assert bool(list(find_repeated(ast.parse(code)))) == repeats


@pytest.mark.parametrize(
    ("code", "waits"),
    [
        ("t = asyncio.create_task(g())\n await e.wait()", True),
        ("t = tasks.create_task(g())\n if x:\n  await self.e.wait()", True),
        ("await e.wait()\n t = asyncio.create_task(g())", False),
        ("t = asyncio.create_task(g())\n await reach(e, t)", False),
        ("t = asyncio.create_task(g())\n async with asyncio.timeout(5):\n  await e.wait()", False),
        ("t = asyncio.create_task(g())\n async def h():\n  await e.wait()", False),
    ],
)
def test_each_form_of_an_unwatched_wait_is_found(code: str, waits: bool) -> None:
    assert bool(list(find_unwatched(ast.parse(f"async def f():\n {code}")))) == waits


@pytest.mark.parametrize(
    ("code", "is_impatient"),
    [
        ("httpx.AsyncClient()", True),
        ("httpx.AsyncClient(timeout=20)", True),
        ("httpx.AsyncClient(timeout=60)", False),
        ("httpx.Client(timeout=WAIT_S)", False),
        ("httpx.AsyncClient(transport=httpx.ASGITransport(app))", False),
        ("httpx.get(url)", True),
        ("httpx.Client(**options)", False),
        ("async def f():\n async with asyncio.timeout(5):\n  pass", True),
        ("async def f():\n async with asyncio.timeout(LONGEST_WAIT_S):\n  pass", False),
        ("PATIENCE_S = 5.0", True),
        ("_READY_S = 300.0", False),
        ("SILENCE_S = 0.4", False),
    ],
)
def test_each_form_of_a_short_deadline_is_found(code: str, is_impatient: bool) -> None:
    assert bool(list(find_impatient(ast.parse(code)))) == is_impatient


@pytest.mark.parametrize(
    ("code", "is_half"),
    [
        ("server.log.read_text()", True),
        ("site.gateway.log.read_bytes()", True),
        ("[line for line in server.log.open()]", True),
        ("server.read_log()", False),
    ],
)
def test_each_form_of_a_half_line_is_found(code: str, is_half: bool) -> None:
    assert bool(list(find_half_lines(ast.parse(code)))) == is_half


@pytest.mark.parametrize(
    ("written", "whole"),
    [(b"", ""), (b"{half", ""), (b"{}\n{half", "{}"), (b"{}\n", "{}"), (b"{}\n{}\n\xc3", "{}\n{}")],
)
def test_a_half_written_line_is_left_out(tmp_path: Path, written: bytes, whole: str) -> None:
    (tmp_path / "log").write_bytes(written)
    assert read_whole_lines(tmp_path / "log") == whole
