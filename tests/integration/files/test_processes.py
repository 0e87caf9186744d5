"""Files in a server process of its own: what they take of its memory, and what a killed server leaves."""

import os
import socket
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.databases import ready_sqlite
from tests.polling import block_until
from tests.serving import Command, command
from tests.state.s3_server import s3_server

MIB = 1024 * 1024
LARGE = 96 * MIB
MAX_GROWTH = 48 * MIB


def build_config(folder: Path) -> dict[str, object]:
    return {
        "store": {"url": ready_sqlite(folder / "store.db")},
        "providers": {"demo": {"type": "scripted"}},
        "models": {"*": {"provider": "demo"}},
    }


def read_memory(server: Command, name: str) -> int:
    """Returns a figure of the process in bytes: `VmRSS` now, `VmHWM` at its highest."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


def list_files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "responses-gateway-files").rglob("*") if path.is_file())


@pytest.mark.parametrize("storage", ["folder", "bucket"])
def test_a_large_file_is_never_held_in_memory(storage: str, tmp_path: Path) -> None:
    (tmp_path / "large.bin").write_bytes(bytes(LARGE))
    with ExitStack() as running:
        config = build_config(tmp_path)
        if storage == "bucket":
            config["files"] = {"s3": running.enter_context(s3_server()).make_bucket().settings}
        server = running.enter_context(command(config, tmp_path))
        http = running.enter_context(httpx.Client(base_url=server.v1, timeout=60))
        http.post("/files", data={"purpose": "user_data"}, files={"file": ("small.txt", b"first")})
        before = read_memory(server, "VmRSS")
        with (tmp_path / "large.bin").open("rb") as content:
            reply = http.post("/files", data={"purpose": "user_data"}, files={"file": ("large.bin", content)})
        assert reply.json()["bytes"] == LARGE
        size = 0
        with http.stream("GET", f"/files/{reply.json()['id']}/content") as download:
            for piece in download.iter_raw():
                size += len(piece)
        assert size == LARGE
        assert read_memory(server, "VmHWM") - before < MAX_GROWTH


def test_an_upload_of_a_killed_server_is_gone_after_the_next_start(tmp_path: Path) -> None:
    config = build_config(tmp_path)
    boundary = "boundary-0123456789"
    part = f'--{boundary}\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n'.encode()
    with command(config, tmp_path) as server:
        kept = httpx.post(
            f"{server.v1}/files", data={"purpose": "user_data"}, files={"file": ("kept.txt", b"kept")}, timeout=60
        ).json()["id"]
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            head = f"POST /v1/files HTTP/1.1\r\nhost: localhost\r\ncontent-length: {LARGE}\r\n"
            head += f"content-type: multipart/form-data; boundary={boundary}\r\n\r\n"
            connection.sendall(head.encode() + part + bytes(2 * MIB))
            block_until(lambda: len(list_files(tmp_path)) == 2)
            server.process.kill()
            server.process.wait()
    assert len(list_files(tmp_path)) == 2
    with command(config, tmp_path) as server:
        assert list_files(tmp_path) == [kept]
        assert [file["id"] for file in httpx.get(f"{server.v1}/files", timeout=60).json()["data"]] == [kept]
        assert os.listdir(tmp_path / "responses-gateway-files" / "tmp") == []
