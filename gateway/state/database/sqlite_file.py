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

_OWNER_ONLY_MODE: Final = 0o600

_LOCK_POLL_S: Final = 0.02


def sqlite_path_of(url: str) -> Path | None:
    """The file an embedded database is in; None for other databases."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database or parsed.database.startswith((":", "file:")):
        return None
    return Path(parsed.database)


def create_database_file(path: Path) -> None:
    """Make the folder and the file where there are none, for nobody else to read: it will hold conversations. What
    cannot be made is the database's to report."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, _OWNER_ONLY_MODE))


class ProcessLock:
    """The processes that use a database. Each holds a lock file beside it: the database's own locks come and go with
    its transactions."""

    def __init__(self, path: Path, *, deadline_s: float) -> None:
        self._path = path
        self._deadline_s = deadline_s
        self._lock_fd: int | None = None

    @asynccontextmanager
    async def acquire(self) -> AsyncGenerator[bool, None]:
        """Use the database from here on, until `leave`. Whether no other process does; if so, others that join wait
        until the block ends."""
        if self._lock_fd is None:
            with suppress(OSError):
                lock_path = self._path.with_name(f"{self._path.name}.lock")
                self._lock_fd = os.open(lock_path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, _OWNER_ONLY_MODE)
        alone = self._try_lock(shared=False)
        try:
            if not alone:
                await self._acquire_shared()
            yield alone
        finally:
            if alone:
                await self._acquire_shared()

    def release(self) -> None:
        """This process no longer uses the database."""
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    async def _acquire_shared(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._deadline_s):
                while self._lock_fd is not None and not self._try_lock(shared=True):  # noqa: ASYNC110  # no event tells of it
                    await asyncio.sleep(_LOCK_POLL_S)

    def _try_lock(self, *, shared: bool) -> bool:
        """Whether the lock could be taken. Where files cannot be locked nobody is ever alone."""
        if sys.platform == "win32" or self._lock_fd is None:
            return shared
        try:
            fcntl.flock(self._lock_fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return shared
        return True
