"""The child process that runs llama.cpp: `python -m providers.llamacpp.child`.

It reads one line of JSON from stdin, `{"model", "engine", "key"}`, prints the address of its server, and serves until
SIGTERM or until stdin is closed. The operating system closes stdin when the parent process ends. With `--check` it
reads an `engine` section from stdin and only prints what is wrong with it. Loading a model holds the interpreter lock
all the time, so the process must be able to end without running Python code: it ends by signals without a handler.
"""

import fcntl
import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final

from providers.llamacpp.parameters import DEFAULT_SLOTS, assign_parameters

_LOG_S: Final = 2.0
"""The limit for llama.cpp to write the rest of its log before the process ends."""

_LOOK_S: Final = 0.02


def main() -> None:
    # Some event loops leave the parent's files open in child processes, such as the gateway's listening socket.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    import xllamacpp  # imported only now, because it may open files itself

    if sys.argv[1:] == ["--check"]:
        sys.stdout.write(json.dumps(assign_parameters(xllamacpp.CommonParams(), json.load(sys.stdin))))
        return
    # C++ code may print to stdout. It goes to stderr, so that the parent does not take it as the address.
    output = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    request = json.loads(sys.stdin.readline())
    _end_with_parent()
    try:
        server = xllamacpp.Server(_configure(xllamacpp.CommonParams(), request))
    except RuntimeError as error:
        _wait_for_log()
        sys.exit(str(error))
    output.write(f"{server.listening_address}\n")
    output.close()
    while True:
        signal.pause()


def _configure(parameters: Any, request: dict[str, Any]) -> Any:
    parameters.n_parallel = DEFAULT_SLOTS
    if problems := assign_parameters(parameters, request["engine"]):
        sys.exit("; ".join(f"{'.'.join(path)}: {message}" for path, message in problems))
    if parameters.cpuparams_batch.n_threads < 0:
        parameters.cpuparams_batch.n_threads = parameters.cpuparams.n_threads
    parameters.model.path = request["model"]
    parameters.model_alias = {Path(request["model"]).stem}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.api_keys = [request["key"]]
    parameters.use_jinja = True
    parameters.ui = False
    parameters.endpoint_slots = False
    parameters.endpoint_metrics = True
    return parameters


def _wait_for_log() -> None:
    """Waits until the threads of llama.cpp are idle: one of them writes the log, with the reason of a failure, and what
    it has not written is lost when the process ends."""
    end = time.monotonic() + _LOG_S
    is_idle = False
    while time.monotonic() < end and not is_idle:
        time.sleep(_LOOK_S)
        is_idle = not any(_is_running(thread) for thread in Path("/proc/self/task").glob("*/stat"))


def _is_running(thread: Path) -> bool:
    """Whether a thread of this process, by its file in /proc, has something to do. The main thread looks itself."""
    try:
        name, state = thread.parent.name, thread.read_text().rpartition(")")[2].split()[0]
    except OSError:  # the thread has ended
        return False
    return name != str(os.getpid()) and state != "S"


def _end_with_parent() -> None:
    """Makes the system send SIGIO, which ends the process, when the other end of stdin is closed."""
    stdin = sys.stdin.fileno()
    fcntl.fcntl(stdin, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(stdin, fcntl.F_SETFL, fcntl.fcntl(stdin, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([stdin], [], [], 0)[0]:
        sys.exit("the parent process has ended")


if __name__ == "__main__":
    main()
