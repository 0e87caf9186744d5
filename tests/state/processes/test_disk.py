"""A database file that cannot be written is still read, has no partial writes, and unstored requests are served."""

import os
import resource
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests import databases
from tests.polling import wait_until
from tests.serving import Command
from tests.state.processes import database_observer
from tests.state.processes.killed_servers import Before, Paused, has_ended, is_stored
from tests.state.replicas import Client, client, replica, text
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_text

pytestmark = pytest.mark.timeout(180)  # servers take long to start where every core is busy

LASTING = {"lease_s": 30.0}
"""No lease runs out: a server that lives ends what it could not keep by itself, with its next word that it lives. It
gives one in each third of a lease, which is well within PATIENCE_S."""

DISK_KB = 2048
IN_A_SMALL_DISK = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
MOUNT = 'mount -t tmpfs -o size={size}k tmpfs "{folder}" && exec "$0" "$@"'
UNPRIVILEGED = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
"""Root writes to read-only files, unless it loses this capability."""

FULL = b"x" * 4096


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as up:
        up.on("/chat/completions", chat_text("Hi", " there"))
        yield up


def may_mount(folder: Path) -> bool:
    """Whether this machine lets us have a disk of our own."""
    if shutil.which("unshare") is None:
        return False
    tried = [*IN_A_SMALL_DISK, MOUNT.format(size=DISK_KB, folder=folder), "true"]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


async def is_well(asking: Client) -> bool:
    return await asking.wrong() is None


async def check_only_reads(
    asking: Client, upstream: ScriptedUpstream, claim: str, spoil: Callable[[], object] = lambda: None
) -> None:
    """Checks a server that cannot write, and reports that.

    `spoil` takes its space again: a server that wrote nothing for some seconds empties its write-ahead log, and can
    write again where that has left space.
    """
    upstream.on("/chat/completions", chat_text("Hi", " there"))

    async def is_refused_and_reported() -> bool:
        spoil()
        refused = await asking.post(input="Hello")
        if refused.status_code == 200:
            return False
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "store_unavailable")
        return await asking.wrong() == claim

    await wait_until(is_refused_and_reported)
    assert text(await asking.create(input="Hello", store=False)) == "Hi there"
    async with asking.stream(input="Hello", store=False) as stream:
        assert (await stream.read_all())["type"] == "response.completed"


async def fail_in_mid_stream(asking: Client, upstream: ScriptedUpstream, spoil: Callable[[], None]) -> str:
    """Returns the id of a stream whose beginning was sent, and whose end could not be stored.

    A server that wrote nothing for some seconds has taken space for its end. Then another one is begun.
    """
    answer = Paused("Hello")
    upstream.on("/chat/completions", answer)
    async with asking.stream(input="Half") as stream:
        await stream.read_to("response.output_text.delta")
        await wait_until(is_stored, asking, stream.response_id)
        spoil()
        answer.go_on.set()
        final = await stream.read_all()
    if final["type"] == "response.completed":
        return await fail_in_mid_stream(asking, upstream, spoil)
    assert (final["type"], final["response"]["error"]["type"]) == ("response.failed", "store_unavailable")
    return stream.response_id


async def check_recovered(asking: Client, before: Before, kept: list[bytes], half: str) -> None:
    await wait_until(is_well, asking)
    await wait_until(has_ended, asking, half)
    assert (await asking.read(half))["status"] == "failed"
    created = await asking.create(input="Hello", previous_response_id=before.last)
    assert await asking.read(created["id"]) == created
    assert await before.bodies(asking) == kept


async def test_a_full_disk_is_read_from_and_written_to_once_it_has_space(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    if not may_mount(folder):
        pytest.skip("this machine lets nobody mount a small disk")
    within = [*IN_A_SMALL_DISK, MOUNT.format(size=DISK_KB, folder=folder)]
    url = databases.sqlite(folder / "state.db")
    before = Before()
    with replica(tmp_path / "a", url, upstream.url, within=within, background=LASTING) as server:
        disk = Path(f"/proc/{server.process.pid}/root{folder}")
        async with client(server) as asking:
            await before.fill(asking)
            stored = await before.bodies(asking)
            half = await fail_in_mid_stream(asking, upstream, lambda: fill(disk / "filler"))
            await check_only_reads(asking, upstream, "its disk is full", lambda: fill(disk / "filler"))
            assert await before.bodies(asking) == stored
            (disk / "filler").unlink()
            await check_recovered(asking, before, stored, half)
        # SQLite takes the path for the one outside: it follows the link.
        shutil.copytree(disk, tmp_path / "copy")
    await database_observer.check_whole(databases.sqlite(tmp_path / "copy" / "state.db"))


def fill(file: Path) -> None:
    """Fills the disk."""
    with file.open("ab", buffering=0) as filler, suppress(OSError):
        while filler.write(FULL):
            pass


async def test_a_file_that_may_not_grow_is_read_from_and_written_to_once_it_may(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    url = databases.sqlite(tmp_path / "state.db")
    before = Before()
    with replica(tmp_path / "a", url, upstream.url, background=LASTING) as server:
        async with client(server) as asking:
            await before.fill(asking)
            stored = await before.bodies(asking)

            def spoil() -> None:
                limit_files(server, (tmp_path / "state.db-wal").stat().st_size + 5000)

            half = await fail_in_mid_stream(asking, upstream, spoil)
            await check_only_reads(asking, upstream, "its disk fails", spoil)
            assert await before.bodies(asking) == stored
            limit_files(server, resource.RLIM_INFINITY)
            await check_recovered(asking, before, stored, half)
        await database_observer.check_whole(url)


def limit_files(server: Command, size: int) -> None:
    _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size, hard))


async def test_a_read_only_file_is_read_by_servers(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    url = databases.sqlite(folder / "state.db")
    within = UNPRIVILEGED if os.getuid() == 0 else []
    before = Before()
    with replica(tmp_path / "a", url, upstream.url) as server:
        async with client(server) as asking:
            await before.fill(asking)
            stored = await before.bodies(asking)
    read_only = [*folder.iterdir(), folder]
    modes = {path: path.stat().st_mode for path in read_only}
    for path in read_only:
        path.chmod(0o500 if path.is_dir() else 0o400)
    with replica(tmp_path / "b", url, upstream.url, within=within) as server:
        async with client(server) as asking:
            await check_only_reads(asking, upstream, "it is read-only")
    for path, mode in modes.items():
        path.chmod(mode)
    with replica(tmp_path / "c", url, upstream.url) as server:
        async with client(server) as asking:
            assert await before.bodies(asking) == stored
            assert text(await asking.create(input="Hello", previous_response_id=before.last)) == "Hi there"
        await database_observer.check_whole(url)


async def test_a_file_that_was_moved_away_is_reported_and_used_again_once_it_is_back(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    file = tmp_path / "state.db"
    away = tmp_path / "away.db"
    claim = "its file was removed or replaced while the server runs: put it back, or restart the server"
    before = Before()

    def move_away() -> None:
        file.rename(away)

    with replica(tmp_path / "server", databases.sqlite(file), upstream.url, background=LASTING) as server:
        async with client(server) as asking:
            await before.fill(asking)
            stored = await before.bodies(asking)
            half = await fail_in_mid_stream(asking, upstream, move_away)
            await check_only_reads(asking, upstream, claim)
            assert (await asking.http.get(f"/responses/{half}")).status_code == 503
            away.rename(file)  # one rename
            await check_recovered(asking, before, stored, half)
