"""Stands before the compiled core on the path (`make test-pure`), as if that were not installed."""

raise ImportError("left out, so that what is in Python is tested")
