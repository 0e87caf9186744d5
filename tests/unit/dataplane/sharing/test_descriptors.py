"""Errors that say that no file descriptor is free, and connections to upstreams that wait for one."""

import asyncio
import errno
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from dataplane.sharing.descriptors import close_idle_connections, is_lack_of_descriptors
from dataplane.transport import DescriptorsExhausted
from tests.polling import wait_until
from tests.unit.dataplane.transport_client import body_of, post, reply, talking


def caused_by(cause: BaseException) -> httpx.ConnectError:
    error = httpx.ConnectError("no")
    error.__cause__ = OSError("All connection attempts failed")
    error.__cause__.__cause__ = cause
    return error


def raised_while_handling(context: BaseException) -> httpx.ConnectError:
    error = httpx.ConnectError("no")
    error.__context__ = context
    return error


LACKS: dict[str, BaseException] = {
    "of the process": OSError(errno.EMFILE, "x"),
    "of the system": OSError(errno.ENFILE, "x"),
    "behind a transport's error": caused_by(OSError(errno.EMFILE, "x")),
}
LACKS["behind an error that names no cause"] = raised_while_handling(OSError(errno.EMFILE, "x"))
OTHERS: dict[str, BaseException | None] = {
    "none": None,
    "refused": ConnectionRefusedError(errno.ECONNREFUSED, "x"),
    "refused at all addresses": caused_by(ConnectionRefusedError(errno.ECONNREFUSED, "x")),
    "something else": httpx.ConnectError("x"),
}
VAGUE: dict[str, BaseException] = {
    "several addresses": OSError("Multiple exceptions"),
    "a lookup that failed": socket.gaierror(socket.EAI_AGAIN, "x"),
    "an unknown name": socket.gaierror(socket.EAI_NONAME, "x"),
    "a system error of a lookup": socket.gaierror(socket.EAI_SYSTEM, "x"),
}


@contextmanager
def no_descriptor_free() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as lowest:
        number = lowest.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("error", LACKS.values(), ids=LACKS)
def test_a_lack_of_descriptors_is_recognized(error: BaseException) -> None:
    assert is_lack_of_descriptors(error)


@pytest.mark.parametrize("error", OTHERS.values(), ids=OTHERS)
def test_other_errors_are_none(error: BaseException | None) -> None:
    with no_descriptor_free():
        assert not is_lack_of_descriptors(error)


@pytest.mark.parametrize("error", VAGUE.values(), ids=VAGUE)
def test_a_vague_error_is_one_only_while_none_is_free(error: BaseException) -> None:
    assert not is_lack_of_descriptors(error)
    with no_descriptor_free():
        assert is_lack_of_descriptors(error)


def fail_to_connect(monkeypatch: pytest.MonkeyPatch, times: int) -> list[int]:
    """Lets the next attempts to connect fail as without a free descriptor. Returns the numbers of attempts."""
    loop = asyncio.get_running_loop()
    connect = loop.create_connection
    attempts: list[int] = []

    async def fail(*arguments: Any, **named: Any) -> Any:
        attempts.append(len(attempts))
        if len(attempts) <= times:
            raise OSError(errno.EMFILE, "Too many open files")
        return await connect(*arguments, **named)

    monkeypatch.setattr(loop, "create_connection", fail)
    return attempts


async def test_a_connection_waits_for_a_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    async with talking(reply(b"hello")) as (transport, upstream):
        attempts = fail_to_connect(monkeypatch, times=2)
        assert await body_of(await transport.handle_async_request(post(upstream))) == b"hello"
        assert len(attempts) == 3


async def test_the_wait_for_a_descriptor_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async with talking() as (transport, upstream):
        fail_to_connect(monkeypatch, times=100)
        with pytest.raises(DescriptorsExhausted):
            await transport.handle_async_request(post(upstream, connect=0.12))
        assert transport.busy == 0


async def test_idle_connections_of_other_pools_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    async with talking(reply(b"1")) as (idle, first), talking(reply(b"2")) as (transport, second):
        await body_of(await idle.handle_async_request(post(first)))
        assert first.open_connections == 1
        fail_to_connect(monkeypatch, times=1)
        await body_of(await transport.handle_async_request(post(second)))
        await wait_until(lambda: first.open_connections == 0)


async def test_without_pools_there_is_nothing_to_close() -> None:
    close_idle_connections()
