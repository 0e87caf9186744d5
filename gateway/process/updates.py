"""Further configurations for a running server: loads them at SIGHUP, and passes them to its event loop."""

import asyncio
import os
import signal
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import suppress
from types import FrameType
from typing import Final, NamedTuple, TypeAlias

from gateway.config.settings import SealingSettings, Settings
from gateway.config.yaml_file import ConfigError

_STANDARD_FILES: Final = (0, 1, 2)

LoadSettings: TypeAlias = Callable[[Settings], Settings]
"""Loads the configuration again, for a server that runs with the given settings. Raises ConfigError."""


class RejectedConfiguration(NamedTuple):
    """A configuration that could not be used."""

    summary: str
    """The places of the problems, without values and folders, because `/readyz` shows them to every client."""
    problems: str
    """Every problem, for the log."""

    @classmethod
    def from_error(cls, error: ConfigError) -> "RejectedConfiguration":
        further = f" and {len(error.places) - 1} more" if len(error.places) > 1 else ""
        return cls(f"not reloaded, see the log: {error.places[0]}{further}", str(error))


SettingsUpdate: TypeAlias = Settings | RejectedConfiguration


class ConfigurationSource:
    """Loads the configurations of a server, and holds the last valid one.

    `sealing` replaces the section of this name in every configuration: it may have a key that was made when the server
    started.
    """

    def __init__(self, settings: Settings, load: LoadSettings, sealing: SealingSettings) -> None:
        self._settings = settings
        self._load = load
        self._sealing = sealing

    @property
    def settings(self) -> Settings:
        """The last valid configuration."""
        return self._settings.model_copy(update={"sealing": self._sealing})

    def reload(self) -> SettingsUpdate:
        """Loads the configuration again. It may take seconds and must not run on an event loop."""
        try:
            self._settings = self._load(self._settings)
        except ConfigError as error:
            return RejectedConfiguration.from_error(error)
        return self.settings


class SettingsUpdates:
    """Passes configurations from threads to the event loop of a server, which may not run yet."""

    def __init__(self) -> None:
        self._updates: deque[SettingsUpdate] = deque()
        self._notify: Callable[[], object] | None = None

    def submit(self, update: SettingsUpdate) -> None:
        """Adds an update. Can be called from any thread."""
        self._updates.append(update)
        if (notify := self._notify) is not None:
            with suppress(RuntimeError):  # the event loop has been closed, because the server ends
                notify()

    async def follow(self) -> AsyncGenerator[SettingsUpdate, None]:
        """Yields all updates in order, for ever. There must be only one reader."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()
        self._notify = lambda: loop.call_soon_threadsafe(changed.set)
        while True:
            changed.clear()
            while self._updates:
                yield self._updates.popleft()
            await changed.wait()


def on_hangup(reload: Callable[[], object]) -> None:
    """Calls `reload` at each SIGHUP, in the main thread.

    If the server was started on a terminal and that terminal is gone, the process gets SIGTERM instead. Otherwise
    it would run on, and occupy its port.
    """
    terminals = [file for file in _STANDARD_FILES if os.isatty(file)]

    def act(_number: int, _frame: FrameType | None) -> None:
        if terminals and not _is_any_terminal(terminals):
            signal.raise_signal(signal.SIGTERM)
        else:
            reload()

    signal.signal(signal.SIGHUP, act)


def _is_any_terminal(files: Iterable[int]) -> bool:
    return any(os.isatty(file) for file in files)
