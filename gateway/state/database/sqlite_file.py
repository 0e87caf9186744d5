"""The file of a SQLite database: its path, its permissions, and whether another process uses it."""

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

_ANY_WRITE_MODE: Final = 0o222

_LOST: Final = "its file was removed or replaced while the server runs: put it back, or restart the server"
_READ_ONLY: Final = "its file is read-only"

_LOCK_POLL_S: Final = 0.02


def sqlite_path_of(url: str) -> Path | None:
    """Returns the file of a SQLite database; None for other databases, and for one without a plain file path."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database or parsed.database.startswith((":", "file:")):
        return None
    return Path(parsed.database)


def create_database_file(path: Path) -> None:
    """Creates the folder and the file if they do not exist.

    Only the owner can read the file, because it will contain conversations. Errors are suppressed: opening the database
    reports them.
    """
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, _OWNER_ONLY_MODE))


class DatabaseFileLost(OSError):
    """Commits would be lost or refused. The message describes the database, as "it"."""


class WatchedFile:
    """The file that this process has open as its database.

    SQLite does not notice that a file was removed or replaced: it continues with the open file, whose contents are lost
    with the process. A file that lost its write permission is not written either, although SQLite could still write it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log_path = path.with_name(f"{path.name}-wal")
        self._identity: tuple[int, int] | None = None

    def record_identity(self) -> None:
        """Records which file was opened. Later calls change nothing."""
        if self._identity is None:
            with suppress(OSError):
                self._identity = _identity_of(os.stat(self._path))

    def find_problem(self, *, writes: bool) -> str | None:
        """Returns the problem of the file, or None. Without `writes`, a file that can be read has no problem."""
        if self._identity is None:
            return None
        try:
            status = os.stat(self._path)
        except OSError:
            return _LOST
        if _identity_of(status) != self._identity:
            return _LOST
        return _READ_ONLY if writes and not status.st_mode & _ANY_WRITE_MODE else None

    def verify(self, *, writes: bool) -> None:
        """Raises DatabaseFileLost if something is wrong with the file."""
        if (problem := self.find_problem(writes=writes)) is not None:
            raise DatabaseFileLost(problem)

    def verify_commit(self) -> int:
        """Returns the size of the write-ahead log after a commit, in bytes.

        Raises DatabaseFileLost if the commit is in no file that the next process would open.
        """
        self.verify(writes=False)
        try:
            return os.stat(self._log_path).st_size
        except OSError:
            raise DatabaseFileLost(_LOST) from None


def _identity_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


class ProcessLock:
    """Shows whether other processes use a database.

    Each process locks a file beside the database. The database's own locks last only as long as its transactions.
    """

    def __init__(self, path: Path, *, deadline_s: float) -> None:
        self.path = path
        self._deadline_s = deadline_s
        self._lock_fd: int | None = None

    @asynccontextmanager
    async def acquire(self) -> AsyncGenerator[bool, None]:
        """Registers this process as a user of the database, until `release`. Yields whether it is the only one.

        If it is, other processes that call `acquire` wait until the block ends, at most `deadline_s`.
        """
        if self._lock_fd is None:
            with suppress(OSError):
                lock_path = self.path.with_name(f"{self.path.name}.lock")
                self._lock_fd = os.open(lock_path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, _OWNER_ONLY_MODE)
        is_alone = self._try_lock(shared=False)
        try:
            if not is_alone:
                await self._acquire_shared()
            yield is_alone
        finally:
            if is_alone:
                await self._acquire_shared()

    def release(self) -> None:
        """Records that this process no longer uses the database."""
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    async def _acquire_shared(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._deadline_s):
                while self._lock_fd is not None and not self._try_lock(shared=True):  # noqa: ASYNC110  # no event signals it
                    await asyncio.sleep(_LOCK_POLL_S)

    def _try_lock(self, *, shared: bool) -> bool:
        """Tries to lock the file. Returns whether that succeeded.

        If files cannot be locked, shared locks always succeed and exclusive ones always fail.
        """
        if sys.platform == "win32" or self._lock_fd is None:
            return shared
        try:
            fcntl.flock(self._lock_fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return shared
        return True
