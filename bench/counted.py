"""The gateway's command, which also writes down how many tasks there are: `python -m bench.counted FILE serve …`."""

import asyncio
import os
import sys
from pathlib import Path

from gateway.cli import commands
from gateway.process import server

_EVERY_S = 0.2
_WIDTH = 8


def tasks_in(file: Path) -> int:
    """How many tasks there were when it was last written."""
    return int(file.read_bytes())


class Counting(server.GatewayServer):
    """Counts all tasks of its loop, but for the one that counts."""

    file: Path

    async def main_loop(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            counting = tasks.create_task(self._count())
            await super().main_loop()
            counting.cancel()

    async def _count(self) -> None:
        kept = os.open(self.file, os.O_WRONLY)
        try:
            while True:
                # Over what was there, in one write: whoever reads meanwhile finds a number.
                os.pwrite(kept, str(len(asyncio.all_tasks()) - 1).rjust(_WIDTH).encode(), 0)
                await asyncio.sleep(_EVERY_S)
        finally:
            os.close(kept)


def main() -> None:
    """Serve as `responses-gateway` does, in one process."""
    Counting.file = Path(sys.argv.pop(1))
    Counting.file.write_bytes(b"0".rjust(_WIDTH))
    server.GatewayServer = Counting  # type: ignore[misc]
    commands.main()


if __name__ == "__main__":
    main()
