"""The file of an embedded database: where it is, who may read it, and whether another process uses it."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from sqlalchemy.engine import make_url

if sys.platform != "win32":
    import fcntl

_OWNER_ONLY: Final = 0o600

_POLL_S: Final = 0.02


def sqlite_file(url: str) -> Path | None:
    """The file an embedded database is in; None for other databases."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database or parsed.database.startswith((":", "file:")):
        return None
    return Path(parsed.database)


def make_file(path: Path) -> None:
    """Make the folder and the file where there are none, for nobody else to read: it will hold conversations. What
    cannot be made is the database's to report."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, _OWNER_ONLY))


class Users:
    """The processes that use a database. Each holds a lock file beside it: the database's own locks come and go with
    its transactions."""

    def __init__(self, path: Path, *, deadline_s: float) -> None:
        self._path = path
        self._deadline_s = deadline_s
        self._lock: int | None = None

    @asynccontextmanager
    async def joined(self) -> AsyncGenerator[bool, None]:
        """Use the database from here on, until `leave`. Whether no other process does; if so, others that join wait
        until the block ends."""
        if self._lock is None:
            with suppress(OSError):
                lock = self._path.with_name(f"{self._path.name}.lock")
                self._lock = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, _OWNER_ONLY)
        alone = self._has(shared=False)
        try:
            if not alone:
                await self._share()
            yield alone
        finally:
            if alone:
                await self._share()

    def leave(self) -> None:
        """This process no longer uses the database."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def _share(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._deadline_s):
                while self._lock is not None and not self._has(shared=True):  # noqa: ASYNC110  # no event tells of it
                    await asyncio.sleep(_POLL_S)

    def _has(self, *, shared: bool) -> bool:
        """Whether the lock could be taken. Where files cannot be locked nobody is ever alone."""
        if sys.platform == "win32" or self._lock is None:
            return shared
        try:
            fcntl.flock(self._lock, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return shared
        return True
