"""Reads a file of environment variables: lines `NAME=value`, as in an `EnvironmentFile` of systemd.

Unlike the environment of a process, such a file can change while the server runs.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gateway.config.yaml_file import ConfigError, Problem, ValuePath

_MAX_BYTES: Final = 1024 * 1024

_PATH: Final[ValuePath] = ("env_file",)

_LINE: Final = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=(.*)")


def read_env_file(file: Path, source: str, lines: Mapping[ValuePath, int]) -> dict[str, str]:
    """Returns the variables of a file. Empty lines and those that begin with `#` are skipped.

    A value may be in quotes, which are removed; nothing in it is expanded. Raises ConfigError if the file
    cannot be read or has another line. `source` and `lines` are those of the configuration that names the file. The
    error quotes no value.
    """
    try:
        with file.open("rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(source, [Problem(_PATH, f"{file} cannot be read: {error.strerror}")], lines) from None
    if len(content) > _MAX_BYTES:
        raise ConfigError(source, [Problem(_PATH, f"{file} is larger than 1 MiB")], lines)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise ConfigError(source, [Problem(_PATH, f"{file} is not UTF-8 text")], lines) from None
    variables: dict[str, str] = {}
    problems: list[Problem] = []
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if not line or line.startswith("#"):
            continue
        if (match := _LINE.fullmatch(line)) is None:
            problems.append(Problem(_PATH, f"{file}, line {number}: write NAME=value"))
        else:
            variables[match[1]] = _unquote(match[2].strip())
    if problems:
        raise ConfigError(source, problems, lines)
    return variables


def _unquote(value: str) -> str:
    is_quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if is_quoted else value
