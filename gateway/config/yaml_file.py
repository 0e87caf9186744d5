"""Reads a YAML file into plain values and the line of each, and renders problems with their lines and paths."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import yaml

PathStep: TypeAlias = str | int
ValuePath: TypeAlias = tuple[PathStep, ...]


class Problem(NamedTuple):
    """One mistake in the configuration. `message` advises what to write instead."""

    path: ValuePath
    message: str


class ConfigError(Exception):
    """The configuration cannot be used.

    Its text has one line per problem: file, line, dotted path, what to write instead.
    """

    def __init__(self, source: str, problems: Iterable[Problem], lines: Mapping[ValuePath, int] | None = None) -> None:
        lines = lines or {}
        self.problems = tuple(sorted(problems, key=lambda problem: _line_of(problem.path, lines) or 0))
        self.places = tuple(_render_place(Path(source).name, problem, lines) for problem in self.problems)
        """The place of each problem: `config.yaml:3: models.demo`. Unlike the text, it has no value and no folder."""
        super().__init__("\n".join(_render_problem(source, problem, lines) for problem in self.problems))


class Document(NamedTuple):
    """A parsed YAML document. `lines` has the line, counted from 1, of every key and list entry."""

    tree: dict[str, Any]
    lines: Mapping[ValuePath, int]


def read_yaml(path: Path) -> Document:
    """Reads a YAML file. Raises ConfigError if it cannot be read, is not YAML or has a duplicate key."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(str(path), [Problem((), "the file is not UTF-8 text")]) from None
    except OSError as error:
        raise ConfigError(str(path), [Problem((), f"cannot be read: {error.strerror}")]) from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, source: str) -> Document:
    """Parses a YAML text. `source` is its name in errors. Raises ConfigError."""
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return Document({}, {})
        lines: dict[ValuePath, int] = {}
        problems = list(_check_nodes(node, (), lines, ()))
        if problems:
            raise ConfigError(source, problems, lines)
        tree = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ConfigError(source, [Problem((), f"{where}not YAML: {error.problem or error.context}")]) from None
    except yaml.YAMLError as error:
        raise ConfigError(source, [Problem((), f"not YAML: {str(error).splitlines()[0]}")]) from None
    if not isinstance(tree, dict):
        raise ConfigError(source, [Problem((), "the file must hold keys such as providers: and models:")])
    return Document(tree, lines)


def _check_nodes(
    node: yaml.Node, path: ValuePath, lines: dict[ValuePath, int], above: tuple[yaml.Node, ...]
) -> Iterator[Problem]:
    """Records the line of each key and entry in `lines`, and reports what a plain tree of values cannot hold.

    That is duplicate keys, keys that are not text, and values that contain themselves. `above` has the nodes around
    this one.
    """
    if node in above:
        yield Problem(path, "this value contains itself")
        return
    match node:
        case yaml.MappingNode():
            first: dict[str, int] = {}
            for key, value in node.value:
                line = key.start_mark.line + 1
                if key.tag == "tag:yaml.org,2002:merge":
                    yield from _check_nodes(value, path, {}, (*above, node))
                    continue
                inner = (*path, str(key.value))
                if key.tag != "tag:yaml.org,2002:str":
                    lines.setdefault(inner, line)
                    yield Problem(inner, f"a key must be text; write '{key.value}' in quotes")
                elif key.value in first:
                    yield Problem(
                        inner, f"written twice, on line {first[key.value]} and line {line}; keep one of the two"
                    )
                else:
                    first[key.value] = line
                    lines[inner] = line
                    yield from _check_nodes(value, inner, lines, (*above, node))
        case yaml.SequenceNode():
            for number, value in enumerate(node.value):
                lines[(*path, number)] = value.start_mark.line + 1
                yield from _check_nodes(value, (*path, number), lines, (*above, node))


def render_path(path: ValuePath) -> str:
    """Renders a path as `auth.keys[0].models`. Names with dots are quoted: `models."gpt-4.1".provider`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            plain = step and all(character.isalnum() or character in "_-" for character in step)
            text += ("." if text else "") + (step if plain else f'"{step}"')
    return text


def render_warnings(file: Path, warnings: Iterable[Problem]) -> Iterator[str]:
    """Yields one line per warning about a file that can be read: file, line, dotted path, message."""
    lines = read_yaml(file).lines
    for where, message in sorted(warnings, key=lambda warning: _line_of(warning.path, lines) or 0):
        line = _line_of(where, lines)
        place = str(file) if line is None else f"{file}:{line}"
        yield ": ".join(part for part in (place, "warning", render_path(where), message) if part)


def _line_of(path: ValuePath, lines: Mapping[ValuePath, int]) -> int | None:
    """Returns the line of the value, or of the nearest one around it that is in the file."""
    return next((lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in lines), None)


def _render_problem(source: str, problem: Problem, lines: Mapping[ValuePath, int]) -> str:
    return f"{_render_place(source, problem, lines)}: {problem.message}"


def _render_place(source: str, problem: Problem, lines: Mapping[ValuePath, int]) -> str:
    line = _line_of(problem.path, lines)
    place = source if line is None else f"{source}:{line}"
    return ": ".join(part for part in (place, render_path(problem.path)) if part)
