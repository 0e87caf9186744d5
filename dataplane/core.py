"""The compiled core, where one is installed that fits (docs/adr/0023)."""

from typing import Final

_VERSION: Final = 10
"""Of what `core/` promises; another one was built for another gateway."""

try:
    import gateway_core
except ImportError:
    CORE = None
else:
    CORE = gateway_core if gateway_core.VERSION == _VERSION else None
