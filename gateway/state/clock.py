"""The time of rows whose replicas need not agree to the second. Leases use the database's clock instead."""

import time


def read_clock_us() -> int:
    """Returns the time of this machine in epoch microseconds."""
    return time.time_ns() // 1000
