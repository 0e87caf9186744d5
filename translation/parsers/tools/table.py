"""Every format of calls in text, by the name it has in the configuration."""

from collections.abc import Callable, Mapping
from typing import Final

from translation.parsers.tools.hermes import HermesParser
from translation.parsers.tools.llama import LlamaParser
from translation.parsers.tools.said import ToolParser

PARSERS: Final[Mapping[str, Callable[[], ToolParser]]] = {
    "hermes": HermesParser,
    "llama": LlamaParser,
}
"""Name -> a new parser for one answer."""
