"""The process that llama.cpp runs in: `python -m providers.llamacpp.child`.

It reads one line of JSON from stdin, `{"model", "engine", "key"}`, prints the address it serves on and serves until
SIGTERM or until stdin is closed, which it is when the process that started it is gone. With `--check` it only prints
what is wrong with an `engine` section. Loading a model holds the interpreter for as long as it takes, so nothing here
may need a turn of Python's to end: both ends are signals that nobody handles.
"""

import fcntl
import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

from providers.llamacpp.parameters import DEFAULT_SLOTS, assign_parameters


def main() -> None:
    # Not every event loop closes what is the parent's, such as the socket that the gateway listens on.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    import xllamacpp  # only now: it may open what it needs

    if sys.argv[1:] == ["--check"]:
        sys.stdout.write(json.dumps(assign_parameters(xllamacpp.CommonParams(), json.load(sys.stdin))))
        return
    # What C++ code may print must not be taken for the address.
    output = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    request = json.loads(sys.stdin.readline())
    _end_with_parent()
    try:
        server = xllamacpp.Server(_configure(xllamacpp.CommonParams(), request))
    except RuntimeError as error:
        sys.exit(str(error))
    output.write(f"{server.listening_address}\n")
    output.close()
    while True:
        signal.pause()


def _configure(parameters: Any, request: dict[str, Any]) -> Any:
    parameters.n_parallel = DEFAULT_SLOTS
    if complaints := assign_parameters(parameters, request["engine"]):
        sys.exit("; ".join(f"{'.'.join(path)}: {message}" for path, message in complaints))
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


def _end_with_parent() -> None:
    """Have the system send SIGIO, which ends a process, once the other end of stdin is closed."""
    stdin = sys.stdin.fileno()
    fcntl.fcntl(stdin, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(stdin, fcntl.F_SETFL, fcntl.fcntl(stdin, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([stdin], [], [], 0)[0]:
        sys.exit("whoever started this is gone")


if __name__ == "__main__":
    main()
