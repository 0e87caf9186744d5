"""The server: routes, planning, streaming, settings. Knows upstreams only through `providers/base.py`."""
