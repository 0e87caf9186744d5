"""An interrupt just before a system call."""

import _thread
import signal
import socket
import threading

import pytest

from gateway.doctor.command import interrupt_waits


def test_an_interrupt_just_before_a_system_call_is_noticed() -> None:
    here, there = socket.socketpair()
    handlers = [signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGINT)]
    with here, there:
        here.settimeout(20)  # much longer than it takes
        waits = threading.Timer(0.05, _thread.interrupt_main)  # notes the signal as its handler does, and sends none

        def wait() -> None:
            waits.start()
            here.recv(1)

        with interrupt_waits(), pytest.raises(KeyboardInterrupt):
            wait()
    assert [signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGINT)] == handlers
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
