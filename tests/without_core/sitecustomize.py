"""Runs as Python starts where this folder is on the path (`make test-pure`): the compiled core counts as absent."""

import sys

sys.modules["dataplane.compiled_core"] = None  # type: ignore[assignment]  # importing it raises ImportError
