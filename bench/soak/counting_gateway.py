"""The gateway's command, which also writes its number of tasks to a file.

It is started by `python -m bench.soak.counting_gateway FILE serve …`."""

import asyncio
import os
import sys
from pathlib import Path

from gateway.cli import commands
from gateway.process import server

_INTERVAL_S = 0.2
_WIDTH = 8


def read_task_count(file: Path) -> int:
    """Returns the number of tasks at the last write of the file."""
    return int(file.read_bytes())


class CountingServer(server.GatewayServer):
    """Writes the number of tasks of its loop to a file, without the task that counts."""

    file: Path

    async def main_loop(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            counter = tasks.create_task(self._write_counts())
            await super().main_loop()
            counter.cancel()

    async def _write_counts(self) -> None:
        descriptor = os.open(self.file, os.O_WRONLY)
        try:
            while True:
                # One write over the old number, so that a concurrent reader always finds a number.
                os.pwrite(descriptor, str(len(asyncio.all_tasks()) - 1).rjust(_WIDTH).encode(), 0)
                await asyncio.sleep(_INTERVAL_S)
        finally:
            os.close(descriptor)


def main() -> None:
    """Serves as `responses-gateway` does, in one process."""
    CountingServer.file = Path(sys.argv.pop(1))
    CountingServer.file.write_bytes(b"0".rjust(_WIDTH))
    server.GatewayServer = CountingServer  # type: ignore[misc]
    commands.main()


if __name__ == "__main__":
    main()
