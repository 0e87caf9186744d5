"""Fixtures and settings of all tests."""

import functools
import gc
import signal
import ssl
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.shared.compiled_statements import share_compiled_statements
from tests.shared.route_analysis import share_route_analysis
from tests.unit.support.deadlines import LastDeadlines

if TYPE_CHECKING:
    from tests.mcp_server import CountingServer

# The modules and tests that are collected are a million objects that remain. The collector would walk through all of
# them again and again, a fifth of the time of the collection.
gc.disable()
gc.set_threshold(50_000, 20, 50)

_STARTS_PER_COLLECTION = 40

# The time of an example depends on the load of the machine. Examples are the same in each run: a new one that fails
# would be found by chance, by somebody whose change has nothing to do with it.
settings.register_profile("tests", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")


def pytest_configure(config: pytest.Config) -> None:
    """Gives every test its last deadline, and has interrupts raise KeyboardInterrupt, here and in processes that tests
    start.

    A shell starts what it runs in the background with interrupts ignored, and every process below inherits that.
    """
    config.pluginmanager.register(LastDeadlines())
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Excludes the collected tests from garbage collections, which begin here."""
    gc.freeze()
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what the recordings are now understood as")


@pytest.fixture(scope="session")
def update_golden(pytestconfig: pytest.Config) -> bool:
    return bool(pytestconfig.getoption("--update-golden"))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


class _StartCollector:
    """What servers of this process use of `gc` as they start: each would walk through all that tests have left.

    A walk takes as long as the rest of a start. The memory of ended servers is freed once in a while.
    """

    set_threshold = staticmethod(gc.set_threshold)

    def __init__(self) -> None:
        self._starts = 0

    def collect(self) -> None:
        self._starts += 1
        if self._starts % _STARTS_PER_COLLECTION == 0:
            gc.collect()

    def freeze(self) -> None:
        """Excludes nothing from collections, so that servers can be freed once they have ended.

        A server does it because it runs until its process ends. This process has thousands, one after the other.
        """


@pytest.fixture(scope="session", autouse=True)
def collectable_servers() -> Iterator[None]:
    """Lets the memory of servers of this process be freed once they have ended, by few collections."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gateway.process.server.gc", _StartCollector())
        yield


@pytest.fixture(scope="session", autouse=True)
def shared_tls_contexts() -> Iterator[None]:
    """Makes clients of httpx share one TLS context: each loads the certificates of all authorities, in 40 ms of CPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", functools.cache(ssl.create_default_context))
        yield


@pytest.fixture(scope="session", autouse=True)
def shared_signatures() -> Iterator[None]:
    """Makes applications share what FastAPI finds in the signatures of their endpoints."""
    with pytest.MonkeyPatch.context() as patch:
        share_route_analysis(patch)
        yield


@pytest.fixture(scope="session", autouse=True)
def shared_statements() -> Iterator[None]:
    """Makes databases share the SQL that SQLAlchemy compiles."""
    with pytest.MonkeyPatch.context() as patch:
        share_compiled_statements(patch)
        yield


@pytest.fixture(scope="module")
def counting_server() -> "Iterator[CountingServer]":
    """A real MCP server for all tests of a module."""
    # Imported here, because the library is large and most tests need none of it.
    from tests.mcp_server import mcp_server

    with mcp_server() as server:
        yield server


@pytest.fixture
def calc(counting_server: "CountingServer") -> "CountingServer":
    """The MCP server of the module, which has counted nothing yet."""
    counting_server.reset()
    return counting_server


@pytest.fixture
def logs_unconfigured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a command that runs in the test's own process leave the log of that process as it is.

    The command's stderr is closed once it is over, and the loggers and access lines of later tests would go there.
    """
    monkeypatch.setattr("gateway.logs.configure_logs", lambda *_: None)
