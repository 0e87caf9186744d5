"""The registry of tool parsers, by their names in the configuration."""

from collections.abc import Callable, Mapping
from typing import Final

from translation.parsers.tools.block_formats import HermesParser, LlamaParser
from translation.parsers.tools.leading import GenericJsonParser, Llama3JsonParser
from translation.parsers.tools.mistral import MistralParser
from translation.parsers.tools.parser_output import ToolParser
from translation.parsers.tools.pythonic import PythonicParser

PARSER_FACTORIES: Final[Mapping[str, Callable[[], ToolParser]]] = {
    "hermes": HermesParser,
    "llama": LlamaParser,
    "llama3_json": Llama3JsonParser,
    "mistral": MistralParser,
    "json": GenericJsonParser,
    "pythonic": PythonicParser,
}
"""Name -> constructor of the parser for one answer."""
