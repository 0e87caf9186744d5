"""The HTTP client of the JDK, on which clients in Java are built."""

import os
import shutil
import subprocess

import pytest

from tests.clients.client_processes import PROGRAMS
from tests.serving import serving

JAVA = shutil.which("java")


@pytest.mark.skipif(JAVA is None, reason="no java on this machine: it comes with a JDK, such as default-jdk-headless")
@pytest.mark.timeout(180)  # a JVM compiles the program
def test_the_client_of_the_jdk_is_served() -> None:
    config = {"providers": {"p": {"type": "scripted"}}, "models": {"demo": {"provider": "p"}}}
    with serving(config) as gateway:
        done = subprocess.run(
            [str(JAVA), str(PROGRAMS / "sdks/JavaHttpClient.java")],
            env={**os.environ, "BASE_URL": gateway.v1, "MODEL": "demo"},
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    whole, stream, again, models = done.stdout.splitlines()
    assert whole.startswith("200 {")
    assert '"status":"completed"' in whole
    assert stream.startswith("200 event: response.created")
    assert "response.completed" in stream
    assert again.startswith("200 {")
    assert models == "200"
