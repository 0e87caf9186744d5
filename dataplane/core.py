"""Loads the compiled core, if a version that fits is installed (docs/adr/0023)."""

from typing import Final

_VERSION: Final = 10
"""The version of the interface of `core/`. A core of another version was built for another gateway and is not used."""

try:
    import gateway_core
except ImportError:
    CORE = None
else:
    CORE = gateway_core if gateway_core.VERSION == _VERSION else None
