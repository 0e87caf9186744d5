"""Opens the listening socket and runs the server in this process or in several workers.

Modules that only the server needs are imported late, because the process that supervises workers does not need them.
"""

import gc
import os
import resource
import secrets
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from pydantic import SecretStr

from gateway.config.settings import SealingSettings, Settings
from gateway.config.yaml_file import render_path
from gateway.metrics.place import MetricsPlace
from gateway.process.banner import render_banner
from gateway.process.updates import ConfigurationSource, LoadSettings, SettingsUpdates, on_hangup

_TERMINAL_PACKAGES: Final = ("pygments", "rich")
"""httpx and structlog import these if they are installed: 7 MiB per process for terminal output that a server never
prints."""


def serve_gateway(settings: Settings, load: LoadSettings, *, host: str, port: int, workers: int) -> None:
    """Serves until SIGTERM or SIGINT. SIGHUP loads the configuration again with `load`.

    Prints `listening on http://HOST:PORT` once requests are accepted and engines have started or failed. Exits with 1
    if the address cannot be bound, the server cannot start, or its workers keep dying.
    """
    with hide_terminal_packages():
        from gateway.log_writer import LogWriter
        from gateway.logs import configure_logs
        from gateway.process.workers import WorkerPool
    _raise_file_limit()
    listener = _bind_listener(host, port)
    bound_host, bound_port = listener.getsockname()[:2]
    url = f"http://[{bound_host}]:{bound_port}" if ":" in bound_host else f"http://{bound_host}:{bound_port}"

    output = LogWriter(sys.stdout.buffer)

    def announce() -> None:
        output.write(f"listening on {url}\n{render_banner(settings, url)}\n".encode())
        _log_hints(settings)

    source = ConfigurationSource(settings, load, _ensure_sealing_key(settings))
    configure_logs(settings.log.level_number, settings.log.format)  # the process that supervises workers logs too
    with _open_metrics_place(settings, shares=workers > 1) as place:
        if workers == 1:
            _serve_alone(source, listener, announce, place)
        elif not WorkerPool(
            partial(run_worker, metrics_place=place, is_supervised=True),
            import_server,
            source,
            listener,
            settings.server,
        ).run(announce):
            sys.exit(1)


def _log_hints(settings: Settings) -> None:
    """Logs what `check-config` warns about."""
    import structlog

    from gateway.config.hints import find_hints

    log = structlog.get_logger(__name__)
    for path, message in find_hints(settings):
        log.warning("config_warning", key=render_path(path), detail=message)


@contextmanager
def _open_metrics_place(settings: Settings, *, shares: bool) -> Iterator[MetricsPlace]:
    """Opens the listener of the metrics, if it has an own one, and the folder that workers share if there are several.

    Exits with 1 if the address cannot be bound.
    """
    if not settings.metrics.enabled:
        yield MetricsPlace()
        return
    address = settings.metrics.address
    listener = None if address is None else _bind_listener(*address, advice="metrics.listen names another address")
    if listener is not None:
        listener.listen()
    owner, folder = os.getpid(), Path(mkdtemp(prefix="gateway-metrics-")) if shares else None
    try:
        yield MetricsPlace(folder, listener)
    finally:
        # Workers are forked inside this block, and leave it too.
        if folder is not None and os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)


def _serve_alone(
    source: ConfigurationSource, listener: socket.socket, on_ready: Callable[[], None], place: MetricsPlace
) -> None:
    """Runs a server in this process."""
    updates = SettingsUpdates()
    loading = threading.Lock()

    def reload() -> None:
        with loading:
            updates.submit(source.reload())

    on_hangup(lambda: threading.Thread(target=reload, name="reload", daemon=True).start())
    run_worker(source.settings, listener, on_ready, updates, place)


def run_worker(
    settings: Settings,
    listener: socket.socket,
    on_ready: Callable[[], None],
    updates: SettingsUpdates,
    metrics_place: MetricsPlace,
    *,
    is_supervised: bool = False,
) -> None:
    """Runs a server in this process until SIGTERM or SIGINT. `on_ready` is called once it is ready."""
    with hide_terminal_packages():
        from gateway.process.server import run_server
    run_server(settings, listener, on_ready, updates, metrics_place, is_supervised=is_supervised)


def import_server(settings: Settings) -> None:
    """Imports the modules that every worker of a configuration needs."""
    with hide_terminal_packages():
        import gateway.process.server

        if settings.store.url is not None:
            import gateway.state.sql.store
        if settings.metrics.enabled:
            import gateway.metrics.worker_metrics  # noqa: F401


@contextmanager
def hide_terminal_packages() -> Iterator[None]:
    """Hides `_TERMINAL_PACKAGES` from imports in the block. Garbage collection is off: imports leave no garbage."""
    absent = [name for name in _TERMINAL_PACKAGES if name not in sys.modules]
    for name in absent:
        sys.modules[name] = None  # type: ignore[assignment]
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        for name in absent:
            del sys.modules[name]


def _ensure_sealing_key(settings: Settings) -> SealingSettings:
    """Returns the keys that all workers share. Creates one if there is neither a key nor a store."""
    if settings.store.url is not None or settings.sealing.keys:
        return settings.sealing
    return SealingSettings(keys=(SecretStr(secrets.token_hex()),))


def _raise_file_limit() -> None:
    """Raises the limit of open files to the maximum. Shells often set a lower one, and each stream has two sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _bind_listener(host: str, port: int, advice: str = "--host and --port name another address") -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        sys.stderr.write(f"cannot listen on {host}:{port}: {error.strerror}; {advice}\n")
        sys.exit(1)
    listener.set_inheritable(True)
    return listener
