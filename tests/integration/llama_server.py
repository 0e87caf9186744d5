"""`python llama_server.py MODEL.gguf` prints the address of a real llama.cpp server and serves."""

import signal
import sys

import xllamacpp


def serve(model: str) -> None:
    """Serves until SIGTERM. It has one slot, so that a request waits for the previous one to end."""
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {"tiny"}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = 4096
    params.n_parallel = 1
    params.use_jinja = True
    params.endpoint_metrics = True
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    signal.sigwait({signal.SIGTERM})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    serve(sys.argv[1])
